<?php

/**
 * Sends the page that the cache benchmark took from a WordPress, at every path, with the path's number in it: /post-17/.
 * Each run leaves a byte in a file, so that the benchmark knows how many answers did not come from a cache.
 */

declare(strict_types=1);

$number = preg_match('~^/post-([0-9]+)/$~', $_SERVER['REQUEST_URI'], $found) ? (int) $found[1] : 0;
file_put_contents(dirname(__DIR__) . '/runs', 'x', FILE_APPEND);
header('Content-Type: text/html; charset=UTF-8');
header('Cache-Control: public, max-age=86400');
printf("<!-- %06d -->\n", $number);
readfile(dirname(__DIR__) . '/page.html');
