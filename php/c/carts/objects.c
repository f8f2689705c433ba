/*
 * Reads of properties of the objects that hold a cart, a session or a customer, in whatever way: `$cart->cart_contents`, a closure that was
 * bound to the object, reflection, a cast to an array, foreach, json_encode(), serialize(), a comparison.
 *
 * From its constructor on, such an object has handlers of ours. The VM asks an object's handlers unless it has remembered at this place where
 * the class has the property (the cache slot of the opcode); ours take that back each time, so they are always asked.
 */
#include "carts.h"

#include <Zend/zend_interfaces.h>

static zend_object_handlers handlers;

/* The place shall ask again. The slot's other words stay: the VM takes the type of the property from there. */
static void forget(void **cache_slot)
{
	if (cache_slot) {
		cache_slot[0] = NULL;
	}
}

static zval *read_property(zend_object *object, zend_string *name, int type, void **cache_slot, zval *rv)
{
	reads_of_object(object, name);
	zval *found = zend_std_read_property(object, name, type, cache_slot, rv);
	forget(cache_slot);
	return found;
}

static int has_property(zend_object *object, zend_string *name, int how, void **cache_slot)
{
	reads_of_object(object, name);
	int found = zend_std_has_property(object, name, how, cache_slot);
	forget(cache_slot);
	return found;
}

static zval *write_property(zend_object *object, zend_string *name, zval *value, void **cache_slot)
{
	zval *written = zend_std_write_property(object, name, value, cache_slot);
	forget(cache_slot);
	return written;
}

/* Who gets a pointer may read by it. */
static zval *get_property_ptr_ptr(zend_object *object, zend_string *name, int type, void **cache_slot)
{
	reads_of_object(object, name);
	zval *found = zend_std_get_property_ptr_ptr(object, name, type, cache_slot);
	forget(cache_slot);
	return found;
}

static void unset_property(zend_object *object, zend_string *name, void **cache_slot)
{
	zend_std_unset_property(object, name, cache_slot);
	forget(cache_slot);
}

static HashTable *get_properties(zend_object *object)
{
	reads_of_object(object, NULL);
	return zend_std_get_properties(object);
}

/* The collector is no reader. As zend_std_get_gc(), for an object whose properties are PHP's own. */
static HashTable *get_gc(zend_object *object, zval **table, int *count)
{
	*table = object->properties ? NULL : object->properties_table;
	*count = object->properties ? 0 : object->ce->default_properties_count;
	return object->properties;
}

static int compare(zval *one, zval *other)
{
	if (Z_TYPE_P(one) == IS_OBJECT && Z_TYPE_P(other) == IS_OBJECT && Z_OBJ_P(one) != Z_OBJ_P(other)) {
		reads_of_object(Z_OBJ_P(Z_OBJ_HT_P(one) == &handlers ? one : other), NULL);
	}
	return zend_std_compare_objects(one, other);
}

/* The copy is watched, too. */
static zend_object *clone_obj(zend_object *object)
{
	zend_object *copy = zend_objects_clone_obj(object);
	objects_adopt(copy);
	return copy;
}

void objects_startup(void)
{
	handlers = std_object_handlers;
	handlers.read_property = read_property;
	handlers.has_property = has_property;
	handlers.write_property = write_property;
	handlers.get_property_ptr_ptr = get_property_ptr_ptr;
	handlers.unset_property = unset_property;
	handlers.get_properties = get_properties;
	handlers.get_gc = get_gc;
	handlers.compare = compare;
	handlers.clone_obj = clone_obj;
}

/* From now on the reads of its properties are noticed. A class that PHP itself brings has handlers of its own. */
void objects_adopt(zend_object *object)
{
	if (object->handlers == &std_object_handlers) {
		object->handlers = &handlers;
	}
}
