<?php

/**
 * What PHP scripts can say to Millrace: to its page cache, and to the browser before the page is there. For editors and static analysis: the functions themselves are in
 * the server's PHP worker, and function_exists('millrace_purge') tells whether a script runs there.
 *
 * Those of the page cache can be called at any time, also when output has begun. The headers Millrace-Cache-Control, Millrace-Tag and
 * Millrace-Purge say the same where a script would rather send a header; they never reach a client.
 */

/**
 * How this page may be kept. The last call of a request holds, and goes before all headers that say something else. A page
 * that sets a cookie is never kept.
 *
 *     millrace_cache_control('public, max-age=3600, stale-while-revalidate=60');
 *     millrace_cache_control('no-cache');
 *
 * @param string $directives those of Cache-Control: public, private, no-cache, no-store, max-age=N,
 *                           stale-while-revalidate=N, stale-if-error=N; and nonce, for a page that holds something
 *                           which is valid for half a day, as WordPress's nonces are; and because=TEXT, which
 *                           `millrace cache explain` shows (no comma in it)
 * @param bool $fallback holds only where the script says nothing else, before or after, nor does a header refuse that the
 *                       page is kept: for a framework's own word, so that the site's word counts whichever comes first
 * @return bool false if the answer has ended, or if this is a fallback and the script has said something else
 * @throws ValueError if it is empty or holds control characters
 */
function millrace_cache_control(string $directives, bool $fallback = false): bool {}

/**
 * Gives this page tags, by which it can be purged; of all calls of a request together.
 *
 *     millrace_tag('product-17', 'category-3');
 *
 * @param string ...$tags without commas and control characters; not beginning with a slash
 * @return bool false if the answer has ended
 * @throws ValueError if one of them is empty or holds what it must not
 */
function millrace_tag(string ...$tags): bool {}

/**
 * Purges pages of this site, at once and again when the script ends: a page that was made in between may hold what was
 * old by then.
 *
 *     millrace_purge('product-17');                 // soft: the old page is served while a new one is made
 *     millrace_purge('hard', 'product-17');         // gone: the next visitor waits for the new one
 *     millrace_purge('/news/today', '/archive/*');  // one page; all below a path
 *     millrace_purge('*');                          // all of this site
 *
 * @param string ...$items tags, paths, prefixes of paths with `*` at the end, or `*`; the first may be `hard` or `soft`
 * @return bool false if no request runs
 * @throws ValueError if one of them is empty or holds a comma or control characters
 */
function millrace_purge(string ...$items): bool {}

/**
 * Makes WordPress's constant WP_CACHE true once WordPress has loaded: Millrace's own hooks call it, so that plugins know that pages come from
 * a cache.
 *
 * @return bool false if the constant is missing
 */
function millrace_announce_cache(): bool {}

/**
 * Tells the server what the script has found out about its visitor. Those who are proven go before others when there is not
 * enough PHP for all; and cookies that mean nothing keep nobody from the page cache, whatever they are called. For WordPress and for
 * PHP's own sessions this is done already; an application with log-ins of its own says it where it checks them.
 *
 *     millrace_visitor('login', 'by=app_session', 'user=17');  // logged in, as the cookie app_session proves
 *     millrace_visitor('cart', 'by=app_session');              // something is in the cart
 *     millrace_visitor('own');                                 // sees pages of his own, but that is no reason to go first
 *     millrace_visitor('none');                                // none of the cookies of this request means anything
 *     millrace_visitor('forget', 'user=17');                   // has logged out or has another password: proofs are void
 *
 * The last call of a request holds, but for 'forget', which holds at once.
 *
 * @param string $found login, cart, own, none, unsure, or forget
 * @param string ...$details by=NAME of the cookie that proves it, user=ID; without spaces and control characters
 * @return bool false if no request runs
 * @throws ValueError if one of them holds a space or control characters
 */
function millrace_visitor(string $found, string ...$details): bool {}

/**
 * Tells the browser at once what it will need, while the page is still being made: 103 Early Hints (RFC 8297). Each call
 * sends one such interim answer. The links are not added to the page: say them by header() as well where a browser that
 * knows no early hints shall see them.
 *
 *     millrace_early_hints('</style.css>; rel=preload; as=style', '<https://cdn.example>; rel=preconnect');
 *
 *     header('Link: </style.css>; rel=preload; as=style');
 *     millrace_early_hints();             // without arguments: the Link headers that are set; as headers_send(103)
 *
 * They reach who asked first for a page that is being made; a page out of the cache comes without. The server does not
 * send them to HTTP/1.0, nor with http.early_hints = false.
 *
 * @param string ...$links values of Link (RFC 8288)
 * @return bool false if the answer has begun
 * @throws ValueError if one of them is empty or holds control characters
 */
function millrace_early_hints(string ...$links): bool {}

/**
 * Waits for the next request, calls the handler for it, and completes its answer: the loop of a worker script
 * (`php.worker_script`), which is started once a worker. docs/php-persistent.md says what is new for each request and what stays.
 *
 *     $application = require __DIR__ . '/../boot.php';
 *     while (millrace_handle_request(fn () => $application->run())) {
 *     }
 *
 * In a script that is not one, it calls the handler once, for the request that runs, and returns false; so the same
 * file serves both ways. Where the function does not exist - under php -S, php-fpm - call the handler instead:
 *
 *     if (!function_exists('millrace_handle_request')) {
 *         $handler();
 *     }
 *
 * @param callable(): mixed $handler finds its request in the superglobals and prints the answer, as any script; what it
 *                                   returns is dropped
 * @return bool whether there will be another request; if not, the script should end
 * @throws Error if a handler calls it
 */
function millrace_handle_request(callable $handler): bool {}

/**
 * The point behind the boot of an application (`php.rewind = "on"`, experimental; docs/php-rewind.md). What runs before it runs once for many
 * requests: the worker keeps its memory as it is here, and puts it back after each request. Returns once a request, with the
 * superglobals of that request. Exists only where rewinding is on.
 *
 *     require 'vendor/autoload.php';
 *     $application = new Application();
 *     if (function_exists('millrace_rewind_point')) {
 *         millrace_rewind_point();
 *     }
 *     $application->run();
 *
 * @param callable|null $before called when the image is about to be made: closes connections and files, of which none may be open; may return
 *                              a text that says why there can be no image
 * @param string[] $repeated functions (`name` or `class::name`, if announced by millrace_rewind_repeats()), and ends of paths of files with
 *                           code outside of functions, whose reads of the request do not become part of the image's key, because the
 *                           caller repeats them after the point, or calls millrace_rewind_leave() if what came of them is another one
 * @param callable|null $compare called after the point, once a second at most, and when a request may have changed something: whether what
 *                               the boot has read of the database is the same now (millrace_rewind_queries()). With it an image
 *                               may live for ten seconds; without it, for a second, and until something may have changed
 * @return bool true if the request begins here; false if it runs the ordinary way, without an image
 */
function millrace_rewind_point(?callable $before = null, array $repeated = [], ?callable $compare = null): bool {}

/**
 * Announces functions that may be named in `$repeated` of the point: what is read by the functions that they call belongs to them, too.
 * Their queries are compared as all others are.
 *
 * @param string[] $functions `name` or `class::name`, as they are written where they are declared; 32 at most
 * @param string[] $classes classes of the objects in which these functions keep what they have read, with their parents; 8 at most
 */
function millrace_rewind_repeats(array $functions, array $classes = []): void {}

/** Whether the boot has called a method of an object of the announced classes, except in the announced functions. */
function millrace_rewind_used(): bool {}

/**
 * Makes the superglobals anew from the request. They are so after the point, too: a point is refused where the boot has changed them.
 */
function millrace_rewind_superglobals(): void {}

/**
 * The queries that the boot has sent by mysqli_query(), and their rows as mysqli_result::fetch_all() returns them; false for an error.
 *
 * @return list<array{string, list<list<mixed>>|false}>
 */
function millrace_rewind_queries(): array {}

/**
 * What the boot has set for its connection, in order: `['query', 'SET ...']`, `['set_charset', NAME]`, `['select_db', NAME]`, as functions of
 * mysqli. The connection that is opened after the point needs it, too.
 *
 * @return list<array{string, string}>
 */
function millrace_rewind_settings(): array {}

/**
 * After millrace_rewind_point(): the boot is not right for this request after all. The image is thrown away and the request runs the
 * ordinary way, from the start of its script; then the call does not return.
 *
 * @param bool $misfit the boot is right for other requests: where another worker is idle, it gets this request, and the image is kept.
 *                     Only before the request has changed anything outside of its process, or opened connections
 * @return bool false if the request has not begun at the point, or its answer has begun
 */
function millrace_rewind_leave(bool $misfit = false): bool {}

/** Something that boots read is about to change: the images of all workers are thrown away, now and when this request ends. */
function millrace_rewind_changed(): void {}

/** The request is about to do something that must not be done twice: it is not run again to be compared (`php.rewind = "auto"`). */
function millrace_rewind_acted(): void {}
