<?php

/**
 * Sends the page that the cache benchmark took from a WordPress, at every path, with the path's number in it: all of it at
 * /page-17/, its first 34,000 bytes at /short-17/.
 * Each run leaves a byte in a file, so that the benchmark knows how many answers did not come from a cache.
 */

declare(strict_types=1);

if (!preg_match('~^/(page|short)-([0-9]+)/$~', $_SERVER['REQUEST_URI'], $found)) {
    http_response_code(404);
    exit;
}
file_put_contents(dirname(__DIR__) . '/runs', 'x', FILE_APPEND);
header('Content-Type: text/html; charset=UTF-8');
header('Cache-Control: public, max-age=86400');
printf("<!-- %06d -->\n", $found[2]);
echo file_get_contents(dirname(__DIR__) . '/page.html', length: $found[1] === 'short' ? 34000 : null);
