/*
 * What is there at the point, however it came to be: objects and resources whose state is not only in the process's memory, a cookie of the
 * response, a session, code that is not in a file on a disk. The gate knows functions; this knows what they have left.
 */
#include "rewind.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "classes.h"

/* Why not, with a name. */
static const char *because(const char *what, const char *name)
{
	static char text[200];
	snprintf(text, sizeof text, "%s%.100s", what, name);
	return text;
}

/* ---- objects ---- */

static bool is_listed(const zend_class_entry *class)
{
	for (bool is_itself = true; class; class = class->parent, is_itself = false) {
		for (size_t i = 0; i < CLASSES; i++) {
			if ((is_itself || classes[i].below) && strcasecmp(classes[i].name, ZSTR_VAL(class->name)) == 0) {
				return true;
			}
		}
	}
	return false;
}

/* Of a class that a script has declared, the class of PHP that it extends counts. */
static const char *sweep_objects(void)
{
	const zend_class_entry *last = NULL;
	for (uint32_t handle = 1; handle < EG(objects_store).top; handle++) {
		const zend_object *object = EG(objects_store).object_buckets[handle];
		const zend_class_entry *class = IS_OBJ_VALID(object) ? object->ce : NULL;
		while (class && class->type != ZEND_INTERNAL_CLASS) {
			class = class->parent;
		}
		if (class && class != last && !is_listed(class)) {
			return because("there is an object of the class ", ZSTR_VAL(class->name));
		}
		last = class;
	}
	return NULL;
}

/* ---- resources ---- */

static bool is_plain_stream(const php_stream *stream)
{
	bool is_plain = stream->ops == &php_stream_stdio_ops || stream->ops == &php_stream_memory_ops || stream->ops == &php_stream_temp_ops;
	return is_plain && !stream->readfilters.head && !stream->writefilters.head;
}

static const char *sweep_resources(void)
{
	zend_resource *resource;
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		const char *type = resource && resource->ptr ? zend_rsrc_list_get_rsrc_type(resource) : NULL;
		/* A factory is a class that stream_wrapper_register() was given. */
		if (!type || strcmp(type, "stream-context") == 0 || strcmp(type, "stream factory") == 0) {
			continue;
		}
		if (strcmp(type, "stream") != 0) {
			return because("there is a resource of the type ", type);
		}
		if (!is_plain_stream(resource->ptr)) {
			return because("a stream is open: ", ((const php_stream *)resource->ptr)->ops->label);
		}
	} ZEND_HASH_FOREACH_END();
	return NULL;
}

/* ---- the rest ---- */

static const char *sweep_fields(void)
{
	zend_llist_position position;
	for (const sapi_header_struct *field = zend_llist_get_first_ex(&SG(sapi_headers).headers, &position); field;
		field = zend_llist_get_next_ex(&SG(sapi_headers).headers, &position)) {
		if (strncasecmp(field->header, "set-cookie", 10) == 0) {
			return "the boot sets a cookie";
		}
	}
	return NULL;
}

static const char *sweep_files(void)
{
	zend_string *path;
	ZEND_HASH_FOREACH_STR_KEY(&EG(included_files), path) {
		if (path && (ZSTR_VAL(path)[0] != '/' || strstr(ZSTR_VAL(path), "://"))) {
			return because("the boot includes what is no file: ", ZSTR_VAL(path));
		}
	} ZEND_HASH_FOREACH_END();
	return NULL;
}

/* Why there can be no image of what is there; NULL: nothing forbids it. */
const char *sweep(void)
{
	if (zend_hash_str_exists(&EG(symbol_table), ZEND_STRL("_SESSION"))) {
		return "there is a session";
	}
	const char *why = sweep_fields();
	why = why ? why : sweep_files();
	why = why ? why : sweep_resources();
	return why ? why : sweep_objects();
}
