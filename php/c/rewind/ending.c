/*
 * The end of a request that began at the point: what php_request_shutdown (main/main.c) does as far as scripts, clients, files and
 * databases see it, in its order. What only frees memory is left out, since the memory goes back as it was. Objects and
 * resources that lived at the point are not freed: they are what the next request begins with.
 */
#include "rewind.h"

#include <Zend/zend_closures.h>
#include <ext/standard/basic_functions.h>
#include <string.h>

/* What there was at the point; part of the image. */
static struct {
	zend_long resources;      /* the first number that was free */
	uint32_t top;             /* of the object store */
	zend_object **objects;    /* a copy of its buckets */
} then;

/* At the point. */
void ending_remember(void)
{
	then.resources = EG(regular_list).nNextFreeElement;
	then.top = EG(objects_store).top;
	then.objects = emalloc(then.top * sizeof *then.objects);
	memcpy(then.objects, EG(objects_store).object_buckets, then.top * sizeof *then.objects);
}

/* zend_close_rsrc_list, for what was opened since. */
static void close_resources(void)
{
	for (zend_long number = EG(regular_list).nNextFreeElement - 1; number >= then.resources; number--) {
		zend_resource *resource = zend_hash_index_find_ptr(&EG(regular_list), (zend_ulong)number);
		if (resource && resource->type >= 0) {
			zend_list_close(resource);
		}
	}
}

/* Whether its end may be seen outside: a connection, a transaction, a file that is written at last. */
static bool matters(uint32_t handle, const zend_object *object)
{
	return IS_OBJ_VALID(object) && !(OBJ_FLAGS(object) & IS_OBJ_FREE_CALLED) && object->ce != zend_ce_closure
		&& object->handlers->free_obj != zend_object_std_dtor && (handle >= then.top || then.objects[handle] != object);
}

/* zend_objects_store_free_object_storage, for objects that were made since. */
static void free_objects(void)
{
	for (uint32_t handle = EG(objects_store).top; handle-- > 1;) {
		zend_object *object = EG(objects_store).object_buckets[handle];
		if (matters(handle, object)) {
			GC_ADD_FLAGS(object, IS_OBJ_FREE_CALLED);
			GC_ADDREF(object);
			object->handlers->free_obj(object);
		}
	}
}

static bool has_destructor(const zend_object *object)
{
	return IS_OBJ_VALID(object) && !(OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED)
		&& (object->handlers->dtor_obj != zend_objects_destroy_object || object->ce->destructor);
}

static bool is_any_destructor_left(void)
{
	for (uint32_t handle = EG(objects_store).top; handle-- > 1;) {
		if (has_destructor(EG(objects_store).object_buckets[handle])) {
			return true;
		}
	}
	return false;
}

static int is_last_reference(zval *value)
{
	if (Z_TYPE_P(value) == IS_INDIRECT) {
		value = Z_INDIRECT_P(value);
	}
	return Z_TYPE_P(value) == IS_OBJECT && Z_REFCOUNT_P(value) == 1 ? ZEND_HASH_APPLY_REMOVE : ZEND_HASH_APPLY_KEEP;
}

/*
 * zend_call_destructors. It frees what global variables alone refer to, and marks each object, those of the boot, too: all these pages
 * would have to be put back. Where no object has a destructor, the variables are only removed: output callbacks do not see them.
 */
static void call_destructors(void)
{
	if (is_any_destructor_left()) {
		zend_call_destructors();
		return;
	}
	dtor_func_t free_value = EG(symbol_table).pDestructor;
	EG(symbol_table).pDestructor = NULL;
	zend_hash_reverse_apply(&EG(symbol_table), is_last_reference);
	EG(symbol_table).pDestructor = free_value;
	EG(flags) |= EG_FLAGS_OBJECT_STORE_NO_REUSE;
}

/* Ends the request, with the answer's END. */
void ending_run(void)
{
	EG(flags) |= EG_FLAGS_IN_SHUTDOWN;
	EG(current_execute_data) = NULL;
	php_call_shutdown_functions();
	zend_try {
		call_destructors();
	} zend_end_try();
	zend_try {
		php_output_end_all();
	} zend_end_try();
	zend_try {
		zend_unset_timeout();
	} zend_end_try();
	zend_deactivate_modules();
	zend_try {
		php_output_deactivate();
	} zend_end_try();
	zend_try {
		close_resources();
	} zend_end_try();
	zend_try {
		free_objects();
	} zend_end_try();
	zend_try {
		sapi_deactivate();
	} zend_end_try();
}
