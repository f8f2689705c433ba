/*
 * Which posts a page shows more of than a link. WordPress reads a whole post for its link in a menu, in a list of pages or to a neighbour; the tag of
 * such a page says so, and an edit of the post's text leaves it alone (Shown in ../inject/wordpress/shown.php). But any code may print more of a
 * post that it has: `echo $post->post_content`, `get_post_field('post_excerpt', 45, 'raw')`, a cast to an array.
 *
 * WP_Post's constructor says that there is one (carts/instrument.c). From then on the object has handlers of ours. The VM asks them once for each
 * place that reads a property, and then remembers where it is; of the properties that count they take that back, so they are always asked. Reads
 * of all others cost nothing.
 *
 * What a link shows does not count. Of WordPress's own functions only the text does, and not for those that copy whole posts.
 */
#include "worker.h"

#include <string.h>

static zend_object_handlers handlers;

/* Of this request: numbers of posts. */
static struct {
	bool noting;
	HashTable read;
} posts;

/* ---- what counts ---- */

static bool is_one_of(const char *name, const char *const *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(name, all[i]) == 0) {
			return true;
		}
	}
	return false;
}

#define IS_ONE_OF(name, all) is_one_of((name), (all), sizeof(all) / sizeof *(all))

/* What a change of which purges links, too (Posts::updated in ../inject/wordpress/posts.php), or is never shown. */
static bool is_of_link(const zend_string *name)
{
	static const char *const all[] = { "ID", "post_title", "post_name", "post_type", "post_status", "post_parent", "post_date", "post_author", "menu_order", "guid",
		"filter", "post_password", "post_mime_type", "comment_status", "ping_status" };
	return IS_ONE_OF(ZSTR_VAL(name), all);
}

static bool is_text(const zend_string *name)
{
	static const char *const all[] = { "post_content", "post_excerpt", "post_content_filtered" };
	return IS_ONE_OF(ZSTR_VAL(name), all);
}

/* Whether a function of WordPress copies posts, or reads them for links. */
static bool only_copies(const zend_execute_data *frame)
{
	static const char *const functions[] = { "sanitize_post", "update_post_cache", "clean_post_cache", "wp_setup_nav_menu_item" };
	static const char *const methods[] = { "__construct", "get_instance", "filter", "__get", "__isset" };
	const zend_function *function = frame->func;
	if (!function->common.function_name) {
		return false;
	}
	const char *name = ZSTR_VAL(function->common.function_name);
	if (!function->common.scope) {
		return IS_ONE_OF(name, functions);
	}
	return strcmp(ZSTR_VAL(function->common.scope->name), "WP_Object_Cache") == 0
		|| (strcmp(ZSTR_VAL(function->common.scope->name), "WP_Post") == 0 && IS_ONE_OF(name, methods));
}

/* Whether a post is being put into an object cache, perhaps by one of a plugin's. */
static bool is_for_cache(const zend_execute_data *frame)
{
	for (unsigned i = 0; frame && i < 8; i++, frame = watch_frame(frame->prev_execute_data)) {
		const zend_string *name = frame->func->common.function_name;
		if (name && !frame->func->common.scope && strncmp(ZSTR_VAL(name), "wp_cache_", 9) == 0) {
			return true;
		}
	}
	return false;
}

/* Who reads, and whether it counts; `name`: NULL: all. */
static bool counts(const zend_string *name)
{
	const zend_execute_data *frame = watch_frame(EG(current_execute_data));
	enum reader by = frame ? observe_reader(frame) : BY_SITE;
	if (by == BY_HOOKS || (by != BY_SITE && ((name && !is_text(name)) || only_copies(frame)))) {
		return false;
	}
	return name || !is_for_cache(frame);
}

static void note(const zend_object *post, const zend_string *name)
{
	if (posts.noting && counts(name)) {
		const zend_property_info *info = zend_hash_str_find_ptr(&post->ce->properties_info, ZEND_STRL("ID"));
		zend_long number = info && !(info->flags & ZEND_ACC_STATIC) ? zval_get_long(OBJ_PROP(post, info->offset)) : 0;
		zend_hash_index_add_empty_element(&posts.read, (zend_ulong)number);
	}
}

/* ---- handlers ---- */

/* The place shall ask again: as carts/objects.c. */
static void forget(void **cache_slot)
{
	if (cache_slot) {
		cache_slot[0] = NULL;
	}
}

static zval *read_property(zend_object *object, zend_string *name, int type, void **cache_slot, zval *rv)
{
	bool is_watched = !is_of_link(name);
	if (is_watched) {
		note(object, name);
	}
	zval *found = zend_std_read_property(object, name, type, cache_slot, rv);
	if (is_watched) {
		forget(cache_slot);
	}
	return found;
}

static int has_property(zend_object *object, zend_string *name, int how, void **cache_slot)
{
	if (how != ZEND_PROPERTY_EXISTS && !is_of_link(name)) {
		note(object, name);
	}
	return zend_std_has_property(object, name, how, cache_slot);
}

static zval *get_property_ptr_ptr(zend_object *object, zend_string *name, int type, void **cache_slot)
{
	bool is_watched = !is_of_link(name);
	if (is_watched) {
		note(object, name);
	}
	zval *found = zend_std_get_property_ptr_ptr(object, name, type, cache_slot);
	if (is_watched) {
		forget(cache_slot);
	}
	return found;
}

/* A cast, foreach, get_object_vars(), json_encode(), serialize(). */
static HashTable *get_properties(zend_object *object)
{
	note(object, NULL);
	return zend_std_get_properties(object);
}

/* The collector is no reader. As zend_std_get_gc(), for an object whose properties are PHP's own. */
static HashTable *get_gc(zend_object *object, zval **table, int *count)
{
	*table = object->properties ? NULL : object->properties_table;
	*count = object->properties ? 0 : object->ce->default_properties_count;
	return object->properties;
}

static zend_object *clone_obj(zend_object *object)
{
	zend_object *copy = zend_objects_clone_obj(object);
	posts_adopt(copy);
	return copy;
}

/* ---- the life of a request ---- */

void posts_startup(void)
{
	handlers = std_object_handlers;
	handlers.read_property = read_property;
	handlers.has_property = has_property;
	handlers.get_property_ptr_ptr = get_property_ptr_ptr;
	handlers.get_properties = get_properties;
	handlers.get_gc = get_gc;
	handlers.clone_obj = clone_obj;
}

void posts_begin(void)
{
	posts.noting = (worker->request.shared || identity_concerns()) && !observe_is_blind();
	if (posts.noting) {
		zend_hash_init(&posts.read, 8, NULL, NULL, false);
	}
}

void posts_free(void)
{
	if (posts.noting) {
		posts.noting = false;
		zend_hash_destroy(&posts.read);
	}
}

/* A post was made: from now on the reads of its properties are noticed. */
void posts_adopt(zend_object *post)
{
	if (posts.noting && post->handlers == &std_object_handlers) {
		post->handlers = &handlers;
	}
}

/* Numbers of the posts of which more was read than a link shows. */
PHP_FUNCTION(millrace_posts_read)
{
	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	zend_ulong number;
	if (posts.noting) {
		ZEND_HASH_FOREACH_NUM_KEY(&posts.read, number) {
			add_next_index_long(return_value, (zend_long)number);
		} ZEND_HASH_FOREACH_END();
	}
}
