/*
 * Has functions say that they are called: their syntax trees are changed when PHP compiles them. Only the functions that matter do anything more
 * than before; opcache keeps them as they were compiled, and no call of another function costs anything.
 *
 *     class WC_Cart { function get_total() { return ...; } }
 *     class WC_Cart { function get_total() { \millrace_cart_trace(TRACE_METHOD); return ...; } }
 *
 * - Methods of the classes that hold the state, and of those that extend one by its name: TRACE_METHOD.
 * - WordPress's WP_Hook::apply_filters() and do_all_hook(), which call plugins: TRACE_HOOKS.
 * - WordPress's WP_Post::__construct(), for ../posts.c: TRACE_POST.
 * - What only keeps the state, or may read it: between TRACE_ENTER and TRACE_LEAVE, in a `try ... finally`.
 */
#include "carts.h"

#include <string.h>

#define TRACE "millrace_cart_trace"

static zend_ast_process_t process_was;

/* millrace_cart_trace(what) */
static zend_ast *call(enum trace what)
{
	zend_ast *name = zend_ast_create_zval_from_str(zend_string_init(ZEND_STRL(TRACE), false));
	name->attr = ZEND_NAME_FQ;
	zend_ast *arguments = zend_ast_create_list(1, ZEND_AST_ARG_LIST, zend_ast_create_zval_from_long((zend_long)what));
	return zend_ast_create(ZEND_AST_CALL, name, arguments);
}

static void put_before(zend_ast_decl *function, enum trace what)
{
	function->child[2] = zend_ast_create_list(2, ZEND_AST_STMT_LIST, call(what), function->child[2]);
}

static void put_around(zend_ast_decl *function)
{
	zend_ast *leave = zend_ast_create_list(1, ZEND_AST_STMT_LIST, call(TRACE_LEAVE));
	zend_ast *body = zend_ast_create(ZEND_AST_TRY, function->child[2], zend_ast_create_list(0, ZEND_AST_CATCH_LIST), leave);
	function->child[2] = zend_ast_create_list(2, ZEND_AST_STMT_LIST, call(TRACE_ENTER), body);
}

/* A function or method; `class`: the name of its class, if it has one. */
static void change_function(zend_ast_decl *function, const zend_string *class, bool is_watched, bool is_hooks)
{
	if (!function->child[2] || (function->flags & ZEND_ACC_GENERATOR)) {
		return;
	}
	uint32_t line = CG(zend_lineno);
	CG(zend_lineno) = function->start_lineno;
	if (known_is_keeper(class, function->name) || (is_watched && known_is_maintenance(class, function->name))) {
		put_around(function);
	}
	if (is_watched) {
		put_before(function, TRACE_METHOD);
	}
	if (is_hooks && (zend_string_equals_literal(function->name, "apply_filters") || zend_string_equals_literal(function->name, "do_all_hook"))) {
		put_before(function, TRACE_HOOKS);
	}
	if (class && zend_string_equals_literal(class, "WP_Post") && zend_string_equals_literal(function->name, "__construct")) {
		put_before(function, TRACE_POST);
	}
	CG(zend_lineno) = line;
}

/* Whether a class extends or implements a watched one, as far as its names say. */
static bool extends_watched(const zend_ast_decl *class)
{
	const zend_ast *parent = class->child[0];
	if (parent && parent->kind == ZEND_AST_ZVAL && known_is_watched(zend_ast_get_str((zend_ast *)(uintptr_t)parent))) {
		return true;
	}
	const zend_ast_list *interfaces = class->child[1] ? zend_ast_get_list(class->child[1]) : NULL;
	for (uint32_t i = 0; interfaces && i < interfaces->children; i++) {
		zend_ast *name = interfaces->child[i];
		if (name->kind == ZEND_AST_ZVAL && known_is_watched(zend_ast_get_str(name))) {
			return true;
		}
	}
	return false;
}

static void change_class(zend_ast_decl *class)
{
	const zend_ast_list *members = class->child[2] ? zend_ast_get_list(class->child[2]) : NULL;
	bool is_watched = known_is_watched(class->name) || extends_watched(class);
	bool is_hooks = class->name && zend_string_equals_literal(class->name, "WP_Hook");
	for (uint32_t i = 0; members && i < members->children; i++) {
		if (members->child[i] && members->child[i]->kind == ZEND_AST_METHOD) {
			change_function((zend_ast_decl *)members->child[i], class->name, is_watched, is_hooks);
		}
	}
}

/* Declarations may stand in conditions and blocks. */
static void change(zend_ast *ast)
{
	uint32_t count;
	zend_ast **children;
	if (!ast) {
		return;
	}
	switch (ast->kind) {
	case ZEND_AST_CLASS:
		change_class((zend_ast_decl *)ast);
		return;
	case ZEND_AST_FUNC_DECL:
		change_function((zend_ast_decl *)ast, NULL, false, false);
		return;
	case ZEND_AST_STMT_LIST:
	case ZEND_AST_IF:
		count = zend_ast_get_list(ast)->children;
		children = zend_ast_get_list(ast)->child;
		break;
	case ZEND_AST_IF_ELEM:
	case ZEND_AST_NAMESPACE:
	case ZEND_AST_DECLARE:
	case ZEND_AST_TRY:
		count = zend_ast_get_num_children(ast);
		children = ast->child;
		break;
	default:
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		change(children[i]);
	}
}

static void process(zend_ast *ast)
{
	change(ast);
	if (process_was) {
		process_was(ast);
	}
}

/* Called in the host, before anything is compiled. */
void instrument_startup(void)
{
	process_was = zend_ast_process;
	zend_ast_process = process;
}

static bool comes_before(zend_uchar opcode)
{
	return opcode == ZEND_NOP || opcode == ZEND_EXT_STMT || opcode == ZEND_EXT_NOP || opcode == ZEND_RECV || opcode == ZEND_RECV_INIT
		|| opcode == ZEND_RECV_VARIADIC;
}

/* Whether it is a method that says that it is called, before it does anything. */
bool instrument_is_traced(const zend_op_array *code)
{
	for (uint32_t i = 0; i + 1 < code->last; i++) {
		const zend_op *op = &code->opcodes[i], *next = op + 1;
		if (op->opcode == ZEND_INIT_FCALL || op->opcode == ZEND_INIT_FCALL_BY_NAME) {
			bool is_ours = zend_string_equals_literal(Z_STR_P(RT_CONSTANT(op, op->op2)), TRACE) && next->op1_type == IS_CONST;
			return is_ours && Z_TYPE_P(RT_CONSTANT(next, next->op1)) == IS_LONG && Z_LVAL_P(RT_CONSTANT(next, next->op1)) == TRACE_METHOD;
		}
		if (!comes_before(op->opcode)) {
			return false;
		}
	}
	return false;
}
