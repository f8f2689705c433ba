<?php

/**
 * Functions and settings that scripts find under this SAPI: those of php-fpm, and apache_response_headers().
 * functions.c holds the code; this file is for readers and for static analysis. ../stubs/millrace.php has those of ours.
 */

/**
 * Ends the answer: all output is sent, the client has its page, the script goes on. What it prints from here on is
 * dropped. The worker serves no other request until the script has ended.
 *
 * @return bool false if the answer had been ended before
 */
function fastcgi_finish_request(): bool {}

/** @return array<string, string> fields of the request, by name */
function apache_request_headers(): array {}

/** @alias apache_request_headers */
function getallheaders(): array {}

/** @return array<string, string> fields of the answer so far; of those set more than once the last */
function apache_response_headers(): array {}

/**
 * Sends the head of the answer now: what header() has set, with this status. 103 sends the Link fields that are set as an
 * interim answer (RFC 8297), and the answer goes on as if nothing had been sent. As in FrankenPHP; not if PHP has it.
 *
 * @return int 103: 1 if it was sent or there was nothing to send, 3 if the answer has begun; 3 for any other interim status, of
 *             which nothing is sent; otherwise 0 if the head was sent
 */
function headers_send(int $status = 200): int {}

/** @return array<string, mixed> state of the pool, with the keys of php-fpm's status page */
function fpm_get_status(): array|false {}
