/*
 * Notices which code reads properties of one object: whether a page depends on who the user is (../inject/wordpress/member.php).
 *
 *     millrace_notice_reads($user, ['ID', 'data'], function (string $property): bool { ... });
 *
 * The values of these declared properties are put aside, so that the VM, which reads a property by itself where it finds one, asks the
 * object's handlers. Each read calls the function, which looks at who reads (debug_backtrace()). As long as it returns true, the reader
 * gets the value, and the next one is noticed, too. With anything else - false, a write, a cast, a copy, a comparison - the values are
 * put back, and nothing is noticed any more: the object is as it was.
 *
 *   noticed ── read, allowed ──> noticed
 *      └────── anything else ──> put back: handlers and properties are PHP's own again
 */
#include "worker.h"

#include <Zend/zend_interfaces.h>
#include <string.h>

#define PROPERTIES_MOST 4u

/* The object that is watched; one at a time. With rewound workers it is part of the image, like the object. */
static struct {
	zend_object *object; /* NULL: none */
	const zend_object_handlers *was;
	zend_object_handlers handlers;
	zval callback;
	bool asks; /* the function runs: what it reads is not noticed */
	size_t count;
	struct put_aside {
		zend_string *name;
		zval *slot, value;
	} all[PROPERTIES_MOST];
} noticed;

/* All is as it was. */
static void put_back(void)
{
	zend_object *object = noticed.object;
	if (!object) {
		return;
	}
	noticed.object = NULL;
	object->handlers = noticed.was;
	for (size_t i = 0; i < noticed.count; i++) {
		struct put_aside *property = &noticed.all[i];
		if (Z_TYPE_P(property->slot) == IS_UNDEF) {
			ZVAL_COPY_VALUE(property->slot, &property->value);
		} else {
			zval_ptr_dtor(&property->value);
		}
		zend_string_release(property->name);
	}
	noticed.count = 0;
	zval_ptr_dtor(&noticed.callback);
	ZVAL_UNDEF(&noticed.callback);
}

/* What was put aside under this name, if it is this object's. */
static struct put_aside *aside_of(const zend_object *object, const zend_string *name)
{
	for (size_t i = 0; object == noticed.object && i < noticed.count; i++) {
		if (zend_string_equals(noticed.all[i].name, name)) {
			return &noticed.all[i];
		}
	}
	return NULL;
}

/* Whether the function allows this read, and the object is watched still. Otherwise all was put back. */
static bool is_allowed(zend_object *object, zend_string *name)
{
	if (noticed.asks) {
		return true;
	}
	zval callback, argument, result;
	ZVAL_COPY(&callback, &noticed.callback);
	ZVAL_STR_COPY(&argument, name);
	ZVAL_UNDEF(&result);
	noticed.asks = true;
	bool allowed = !EG(exception) && call_user_function(NULL, NULL, &callback, &result, 1, &argument) == SUCCESS
		&& !EG(exception) && Z_TYPE(result) == IS_TRUE;
	noticed.asks = false;
	zval_ptr_dtor(&result);
	zval_ptr_dtor(&argument);
	zval_ptr_dtor(&callback);
	if (!allowed && noticed.object == object) {
		put_back();
	}
	return allowed && noticed.object == object;
}

/* Something other than a plain read: the function hears of it as of a read of `*`, and nothing is noticed any more. */
static void give_up(zend_object *object)
{
	if (object && object == noticed.object && !noticed.asks) {
		zend_string *all = zend_string_init(ZEND_STRL("*"), false);
		is_allowed(object, all);
		zend_string_release(all);
	}
	if (object && object == noticed.object) {
		put_back();
	}
}

static zval *read_property(zend_object *object, zend_string *name, int type, void **cache_slot, zval *rv)
{
	struct put_aside *property = aside_of(object, name);
	if (property && (type == BP_VAR_R || type == BP_VAR_IS) && is_allowed(object, name)) {
		return &property->value;
	}
	if (property) {
		give_up(object);
	}
	return zend_std_read_property(object, name, type, cache_slot, rv);
}

static int has_property(zend_object *object, zend_string *name, int how, void **cache_slot)
{
	struct put_aside *property = aside_of(object, name);
	if (property && is_allowed(object, name)) {
		switch (how) {
		case ZEND_PROPERTY_EXISTS:
			return 1;
		case ZEND_PROPERTY_NOT_EMPTY:
			return zend_is_true(&property->value);
		default:
			return Z_TYPE(property->value) != IS_NULL;
		}
	}
	return zend_std_has_property(object, name, how, cache_slot);
}

/* Also a new property: then the object has a table of them, which PHP reads by itself. */
static zval *write_property(zend_object *object, zend_string *name, zval *value, void **cache_slot)
{
	if (aside_of(object, name)) {
		give_up(object);
	}
	zval *written = zend_std_write_property(object, name, value, cache_slot);
	if (object->properties) {
		give_up(object);
	}
	return written;
}

static zval *get_property_ptr_ptr(zend_object *object, zend_string *name, int type, void **cache_slot)
{
	if (aside_of(object, name)) {
		give_up(object);
	}
	zval *found = zend_std_get_property_ptr_ptr(object, name, type, cache_slot);
	if (object->properties) {
		give_up(object);
	}
	return found;
}

static void unset_property(zend_object *object, zend_string *name, void **cache_slot)
{
	if (aside_of(object, name)) {
		give_up(object);
	}
	zend_std_unset_property(object, name, cache_slot);
}

/* A cast, foreach, json_encode(), var_dump(), serialize(). */
static HashTable *get_properties(zend_object *object)
{
	give_up(object);
	return zend_std_get_properties(object);
}

/* As zend_std_get_gc() for an object whose properties are PHP's own: the collector must not count as a reader. */
static HashTable *get_gc(zend_object *object, zval **table, int *count)
{
	*table = object->properties ? NULL : object->properties_table;
	*count = object->properties ? 0 : object->ce->default_properties_count;
	return object->properties;
}

static zend_object *clone_obj(zend_object *object)
{
	give_up(object);
	return zend_objects_clone_obj(object);
}

static int compare(zval *one, zval *other)
{
	give_up(noticed.object);
	return zend_std_compare_objects(one, other);
}

static void free_obj(zend_object *object)
{
	if (object == noticed.object) {
		put_back();
	}
	zend_object_std_dtor(object);
}

/* Puts a declared property aside; false: there is none that can be. */
static bool put_aside(zend_object *object, zend_string *name)
{
	const zend_property_info *info = zend_hash_find_ptr(&object->ce->properties_info, name);
	if (!info || (info->flags & ZEND_ACC_STATIC) || ZEND_TYPE_IS_SET(info->type) || noticed.count == PROPERTIES_MOST) {
		return false;
	}
	zval *slot = OBJ_PROP(object, info->offset);
	if (Z_TYPE_P(slot) == IS_UNDEF || Z_ISREF_P(slot)) {
		return false;
	}
	struct put_aside *property = &noticed.all[noticed.count++];
	property->name = zend_string_copy(name);
	property->slot = slot;
	ZVAL_COPY_VALUE(&property->value, slot);
	ZVAL_UNDEF(slot);
	return true;
}

/* Whether the reads of these properties are noticed from now on. Not those of an object whose handlers are not PHP's own, or that has been cast to an array. */
PHP_FUNCTION(millrace_notice_reads)
{
	zend_object *object;
	HashTable *names;
	zval *callback, *name;
	ZEND_PARSE_PARAMETERS_START(3, 3)
		Z_PARAM_OBJ(object)
		Z_PARAM_ARRAY_HT(names)
		Z_PARAM_ZVAL(callback)
	ZEND_PARSE_PARAMETERS_END();
	put_back();
	if (object->handlers != &std_object_handlers || object->properties || !zend_is_callable(callback, 0, NULL)) {
		RETURN_FALSE;
	}
	noticed.was = object->handlers;
	noticed.handlers = std_object_handlers;
	noticed.handlers.read_property = read_property;
	noticed.handlers.has_property = has_property;
	noticed.handlers.write_property = write_property;
	noticed.handlers.get_property_ptr_ptr = get_property_ptr_ptr;
	noticed.handlers.unset_property = unset_property;
	noticed.handlers.get_properties = get_properties;
	noticed.handlers.get_gc = get_gc;
	noticed.handlers.clone_obj = clone_obj;
	noticed.handlers.compare = compare;
	noticed.handlers.free_obj = free_obj;
	object->handlers = &noticed.handlers;
	noticed.object = object;
	ZVAL_COPY(&noticed.callback, callback);
	bool all = true;
	ZEND_HASH_FOREACH_VAL(names, name) {
		all = all && Z_TYPE_P(name) == IS_STRING && put_aside(object, Z_STR_P(name));
	} ZEND_HASH_FOREACH_END();
	if (!all) {
		put_back();
	}
	RETURN_BOOL(all);
}

/* The request is over. */
void noticed_end(void)
{
	put_back();
	/* It may have ended in the function. */
	noticed.asks = false;
}
