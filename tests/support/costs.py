"""How long the tests of the whole program and the scenarios take, and which of them bear no others beside them."""

# They bring crowds, or look at how long something takes, or at who gets how much of the processors and of memory, or what holds the machine back.
TESTS_ALONE = ["doctor", "shop", "soak"]
# They look at how long something takes, too, but need little of the processors: these three at a time, before all others.
TESTS_IDLE = ["kill-cache", "kill", "evil", "waiting-room", "load"]
# Seconds beside one other on two processors, as the last line of each says: the longest begin first, and `./test quick` chooses by it.
TESTS = {
    "purges": 201, "browser-carts": 175, "hooks": 166, "tune": 165, "carts": 142, "applications": 111, "doctor": 103, "browser": 93,
    "browser-cache": 93, "object-cache": 88, "kill-cache": 83, "kill": 76, "shop": 76, "network": 60, "dashboard": 56, "rewind": 54, "evil": 50,
    "members": 49, "php-src": 39, "loopback": 32, "debian": 31, "waiting-room": 27, "guesses": 25, "soak": 23, "acme": 21, "fastcgi": 21, "rewind-leaks": 20,
    "new-wordpress": 19, "anonymous": 17, "load": 17, "caching": 15, "load-report": 15, "browser-h2": 14, "visitors": 12,
    "known-applications": 9, "htaccess": 6, "demo": 5, "like-nginx": 5, "malformed": 4, "h2spec": 2, "adopt": 1, "command-line": 1,
}

# They bring crowds, fill memory, or look at who gets how much of the processors.
SCENARIOS_ALONE = ["10-accept", "10-budget", "10-crowd", "20-tls-handshakes", "31-h2-floods", "60-cache-crowd", "70-isolation", "70-overload", "70-pools"]
SCENARIOS = {
    "70-limits": 59, "80-reply-admin": 52, "70-pools": 50, "70-fastcgi": 32, "60-cache-crowd": 29, "60-cache-poisoning": 29, "10-life": 27,
    "35-again": 27, "31-h2": 25, "60-cache-outage": 24, "75-rewind": 24, "75-persistent": 23, "70-overload": 22, "10-budget": 19,
    "45-shield": 18, "20-tls": 17, "70-content": 15, "70-proxy": 11, "70-reload": 11, "40-route-applications": 10,
    "70-proxy-h2": 10, "40-route-auth": 9, "70-php": 9, "60-cache-visitors": 8, "10-crowd": 7, "70-isolation": 7,
    "40-route-htaccess": 6, "60-cache-litespeed": 5, "70-compress": 5, "90-waiting-files": 5, "20-tls-handshakes": 4, "60-cache-drupal": 4,
    "60-cache-purge": 4, "80-reply-log": 4, "30-h1-limits": 3, "30-h1-mixture": 3, "31-h2-floods": 3, "50-files": 3, "30-h1-connections": 2,
    "40-route-network": 2, "40-route-rules": 2, "40-route-sites": 2, "60-cache-explain": 2, "60-cache-memory": 2, "80-reply-token": 2,
    "10-accept": 1, "20-tls-clients": 1, "20-tls-early": 1, "30-h1-content": 1, "60-cache-proxy": 1, "90-owners": 1, "20-tls-front": 1,
}
