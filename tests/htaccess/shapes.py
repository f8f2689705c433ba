"""Blocks of `.htaccess` files in the shapes that generators write: applications, cache and security plugins, hosters, and the snippets that people
copy. Written for this test; no text is a generator's own. BASE is the folder's URL path, ROOT the document root.

A shape is a row: its name, its text with «one¦other» where variants differ, and paths that it is about. Each choice of a variant takes the same
alternative everywhere in the text, so that a shape with three alternatives gives three files."""

import re
from dataclasses import dataclass


@dataclass
class Shape:
    """A block, and what to ask for."""

    name: str
    text: str
    asks: list

    def variants(self):
        """Number of different texts."""
        return max([len(found.split("¦")) for found in CHOICE.findall(self.text)] or [1])

    def variant(self, number):
        """The text with alternative `number` of each choice."""
        return CHOICE.sub(lambda found: found[1].split("¦")[number % len(found[1].split("¦"))], self.text)


# A choice. The signs are ones that rules do not use.
CHOICE = re.compile("«([^»]*)»")

SHAPES = {}


def shape(name, asks, text):
    """Adds a shape; `asks` are paths that it is about."""
    SHAPES[name] = Shape(name, text.strip("\n") + "\n", asks.split())


# --- WordPress and its networks
shape("wordpress", "2024/05/a-post/ page/2/ feed/ wp-login.php index.php?p=1 category/news/?orderby=date wp-json/wp/v2/posts", r"""
# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
«RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]¦¦RewriteCond %{HTTP:Authorization} ^(.*)
RewriteRule ^(.*) - [E=HTTP_AUTHORIZATION:%1]»
RewriteBase BASE/
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . BASE/index.php [L«¦,QSA¦»]
</IfModule>
# END WordPress
""")
shape("network-folders", "two wp-admin two/wp-admin two/wp-admin/ two/wp-content/uploads/x.txt two/wp-login.php two/a-page/ wp-content/uploads/x.txt", r"""
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase BASE/
RewriteRule ^index\.php$ - [L]

# add a trailing slash to /wp-admin
RewriteRule ^«([_0-9a-zA-Z-]+/)?¦»wp-admin$ «$1¦»wp-admin/ [R=301,L]

RewriteCond %{REQUEST_FILENAME} -f [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(.*\.php)$ $2 [L]
RewriteRule . index.php [L]
""")
shape("network-files", "files/x.txt two/files/x.txt wp-admin wp-content/uploads/x.txt", r"""
RewriteEngine On
RewriteBase BASE/
RewriteRule ^index\.php$ - [L]
# uploaded files
RewriteRule ^«([_0-9a-zA-Z-]+/)?¦»files/(.+) wp-includes/ms-files.php?file=«$2¦$1» [L«¦,QSA»]
RewriteCond %{REQUEST_FILENAME} -f [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^ - [L]
RewriteRule . index.php [L]
""")
shape("wordpress-moved", "wp-admin/ a-post/ wp-content/uploads/x.txt", r"""
<IfModule mod_rewrite.c>
RewriteEngine on
RewriteCond %{HTTP_HOST} ^«(www.)?¦»example.test$
RewriteCond %{REQUEST_URI} !^BASE/core/
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule ^(.*)$ BASE/core/$1
RewriteCond %{HTTP_HOST} ^«(www.)?¦»example.test$
RewriteRule ^(/)?$ core/index.php [L]
</IfModule>
""")

# --- caches
shape("litespeed", "a-post/ wp-login.php a-post/?utm_source=x robots.txt", r"""
# BEGIN LSCACHE
<IfModule LiteSpeed>
RewriteEngine on
CacheLookup on
RewriteRule .* - [E=Cache-Control:no-autoflush]
RewriteRule ^wp-content/litespeed/debug/ - [F,L]
### marker MOBILE start ###
RewriteCond %{HTTP_USER_AGENT} «Mobile¦Android¦Silk/¦Kindle¦BlackBerry» [NC]
RewriteRule .* - [E=Cache-Control:vary=%{ENV:LSCACHE_VARY_VALUE}+ismobile]
### marker WEBP start ###
RewriteCond %{HTTP_ACCEPT} image/webp [OR]
RewriteCond %{HTTP_USER_AGENT} iPhone\ OS\ (1[4-9]|[2-9][0-9])
RewriteRule .* - [E=Cache-Control:vary=%{ENV:LSCACHE_VARY_VALUE}+webp]
### marker DROPQS start ###
CacheKeyModify -qs:fbclid
CacheKeyModify -qs:utm*
</IfModule>
## LITESPEED WP CACHE PLUGIN - Do not edit the contents of this block! ##
# END LSCACHE
""")
shape("wp-super-cache", "a-post/ a-post/?x=1 cached/ feed/", r"""
# BEGIN WPSuperCache
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteBase BASE/
#If you serve pages from behind a proxy you may want to change 'RewriteCond %{HTTPS} on' to something more sensible
AddDefaultCharset UTF-8
RewriteCond %{REQUEST_URI} !^.*[^/]$
RewriteCond %{REQUEST_URI} !^.*//.*$
RewriteCond %{REQUEST_METHOD} !POST
RewriteCond %{QUERY_STRING} «^$¦!.*=.*»
RewriteCond %{HTTP:Cookie} !^.*(comment_author_|wordpress_logged_in|wp-postpass_).*$
RewriteCond %{HTTP:X-Wap-Profile} !^[a-z0-9\"]+ [NC]
RewriteCond %{HTTP:Profile} !^[a-z0-9\"]+ [NC]
RewriteCond %{HTTPS} !on
RewriteCond ROOTBASE/wp-content/cache/supercache/%{SERVER_NAME}BASE/$1/index.html -f
RewriteRule ^(.*)/$ "BASE/wp-content/cache/supercache/%{SERVER_NAME}BASE/$1/index.html" [L]
</IfModule>
# END WPSuperCache
""")
shape("w3-total-cache", "cached/ a-post/ style.css app.js wp-content/uploads/x.txt", r"""
# BEGIN W3TC Browser Cache
<IfModule mod_mime.c>
    AddType text/css .css
    AddType text/x-component .htc
    AddType application/x-javascript .js
    AddType image/svg+xml .svg .svgz
    AddType application/vnd.ms-fontobject .eot
    AddType font/woff2 .woff2
</IfModule>
<IfModule mod_expires.c>
    ExpiresActive On
    ExpiresByType text/css A«31536000¦2592000»
    ExpiresByType application/x-javascript A31536000
    ExpiresByType image/jpeg A31536000
</IfModule>
<FilesMatch "\.(css|htc|less|js|js2|js3|js4|CSS|HTC|LESS|JS|JS2|JS3|JS4)$">
    FileETag «MTime Size¦None»
    <IfModule mod_headers.c>
         Header set Cache-Control "«public¦max-age=31536000, public, must-revalidate, proxy-revalidate»"
         Header unset Last-Modified
    </IfModule>
</FilesMatch>
# END W3TC Browser Cache
# BEGIN W3TC Page Cache core
<IfModule mod_rewrite.c>
    RewriteEngine On
    RewriteBase BASE/
    RewriteCond %{HTTPS} =on
    RewriteRule .* - [E=W3TC_SSL:_ssl]
    RewriteCond %{SERVER_PORT} =443
    RewriteRule .* - [E=W3TC_SSL:_ssl]
    RewriteCond %{HTTP:Accept-Encoding} gzip
    RewriteRule .* - [E=W3TC_ENC:_gzip]
    RewriteCond %{HTTP_COOKIE} w3tc_preview [NC]
    RewriteRule .* - [E=W3TC_PREVIEW:_preview]
    RewriteCond %{REQUEST_METHOD} !=POST
    RewriteCond %{QUERY_STRING} =""
    RewriteCond %{REQUEST_URI} \/$
    RewriteCond %{HTTP_COOKIE} !(comment_author|wp\-postpass|w3tc_logged_out|wordpress_logged_in|wptouch_switch_toggle) [NC]
    RewriteCond "ROOTBASE/wp-content/cache/page_enhanced/%{HTTP_HOST}/%{REQUEST_URI}/_index%{ENV:W3TC_SSL}%{ENV:W3TC_PREVIEW}.html" -f
    RewriteRule .* "BASE/wp-content/cache/page_enhanced/%{HTTP_HOST}/%{REQUEST_URI}/_index%{ENV:W3TC_SSL}%{ENV:W3TC_PREVIEW}.html" [L]
</IfModule>
# END W3TC Page Cache core
""")
shape("wp-rocket", "cached/ a-post/ style.css img.jpg a-post/?lang=de", r"""
# BEGIN WP Rocket
AddDefaultCharset UTF-8
<IfModule mod_mime.c>
AddCharset UTF-8 .atom .css .js .json .rss .vtt .xml
</IfModule>
<IfModule mod_headers.c>
Header unset ETag
</IfModule>
FileETag None
<IfModule mod_alias.c>
<FilesMatch "\.(html|htm|rtf|rtx|txt|xsd|xsl|xml)$">
<IfModule mod_headers.c>
Header set X-Powered-By "Rocket"
Header unset Pragma
Header append Cache-Control "public"
Header unset Last-Modified
</IfModule>
</FilesMatch>
</IfModule>
<IfModule mod_expires.c>
ExpiresActive on
ExpiresDefault                              "access plus «1 month¦1 week»"
ExpiresByType text/html                     "access plus 0 seconds"
ExpiresByType image/jpeg                    "access plus 4 months"
ExpiresByType text/css                      "access plus 1 year"
</IfModule>
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteBase BASE/
RewriteCond %{HTTPS} on [OR]
RewriteCond %{SERVER_PORT} ^443$ [OR]
RewriteCond %{HTTP:X-Forwarded-Proto} https
RewriteRule .* - [E=WPR_SSL:-https]
«RewriteCond %{HTTP_ACCEPT} image/webp
RewriteRule .* - [E=WPR_WEBP:-webp]¦»
RewriteCond %{REQUEST_METHOD} GET
RewriteCond %{QUERY_STRING} =""
RewriteCond %{HTTP:Cookie} !(wordpress_logged_in_.+|wp-postpass_|wptouch_switch_toggle|comment_author_) [NC]
RewriteCond %{REQUEST_URI} !^(BASE/(.+/)?feed/?.+/?|/(?:.+/)?embed/|BASE/(index.php/)?(.*)wp-json(/.*|$))$ [NC]
RewriteCond %{HTTP_USER_AGENT} !^(facebookexternalhit|WhatsApp).* [NC]
RewriteCond "%{DOCUMENT_ROOT}BASE/wp-content/cache/wp-rocket/%{HTTP_HOST}%{REQUEST_URI}/index%{ENV:WPR_SSL}%{ENV:WPR_WEBP}.html" -f
RewriteRule .* "BASE/wp-content/cache/wp-rocket/%{HTTP_HOST}%{REQUEST_URI}/index%{ENV:WPR_SSL}%{ENV:WPR_WEBP}.html" [L]
</IfModule>
# END WP Rocket
""")
shape("fastest-cache", "cached/ a-post/ img.jpg", r"""
# BEGIN WpFastestCache
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteBase BASE/
RewriteCond %{HTTP_HOST} ^«example.test¦www.example.test»
RewriteCond %{HTTP_USER_AGENT} !(facebookexternalhit|WP_FASTEST_CACHE_CSS_VALIDATOR|Twitterbot)
RewriteCond %{REQUEST_METHOD} !POST
RewriteCond %{REQUEST_URI} !(\/){2}$
RewriteCond %{REQUEST_URI} \/$
RewriteCond %{QUERY_STRING} !.+
RewriteCond %{HTTP:Cookie} !comment_author_
RewriteCond %{HTTP:Cookie} !safirmobilswitcher=mobil
RewriteCond %{HTTP:Profile} !^[a-z0-9\"]+ [NC]
RewriteCond %{DOCUMENT_ROOT}BASE/wp-content/cache/all/$1/index.html -f [or]
RewriteCond ROOTBASE/wp-content/cache/all/$1/index.html -f
RewriteRule ^(.*) "BASE/wp-content/cache/all/$1/index.html" [L]
</IfModule>
<FilesMatch "\.(html|htm|HTML|HTM)$">
AddDefaultCharset UTF-8
<ifModule mod_headers.c>
FileETag None
Header unset ETag
Header set Cache-Control "max-age=0, no-cache, no-store, must-revalidate"
Header set Pragma "no-cache"
Header set Expires "Mon, 29 Oct 1923 20:30:00 GMT"
</ifModule>
</FilesMatch>
# END WpFastestCache
""")
shape("expires", "img.jpg style.css app.js doc.pdf a.html show.php", r"""
<IfModule mod_expires.c>
  ExpiresActive «On¦on¦On»
  ExpiresDefault "access plus «1 month¦2 days¦6 hours»"
  ExpiresByType text/css "access plus 1 «year¦month¦week»"
  ExpiresByType text/html "«access plus 0 seconds¦modification plus 3 hours¦access plus 1 minute»"
  ExpiresByType image/jpeg A«86400¦604800¦2592000»
  ExpiresByType image/png M3600
  ExpiresByType application/pdf "access plus 1 month 2 days 3 hours"
</IfModule>
""")
shape("deflate", "a.html style.css app.js img.png", r"""
<IfModule mod_deflate.c>
  <IfModule mod_setenvif.c>
    <IfModule mod_headers.c>
      SetEnvIfNoCase ^(Accept-EncodXng|X-cept-Encoding|X{15}|~{15}|-{15})$ ^((gzip|deflate)\s*,?\s*)+|[X~-]{4,13}$ HAVE_Accept-Encoding
      RequestHeader append Accept-Encoding "gzip,deflate" env=HAVE_Accept-Encoding
    </IfModule>
  </IfModule>
  «<IfModule mod_filter.c>
    AddOutputFilterByType DEFLATE text/html text/css text/plain application/javascript application/json image/svg+xml
  </IfModule>¦SetOutputFilter DEFLATE
  BrowserMatch ^Mozilla/4 gzip-only-text/html
  BrowserMatch \bMSIE !no-gzip !gzip-only-text/html
  SetEnvIfNoCase Request_URI \.(?:gif|jpe?g|png)$ no-gzip dont-vary»
  Header append Vary User-Agent env=!dont-vary
</IfModule>
""")
shape("cache-control", "img.jpg style.css app.js a.html readme.txt show.php", r"""
<IfModule mod_headers.c>
  <FilesMatch "\.(ico|jpe?g|png|gif|webp|svg|woff2?)$">
    Header set Cache-Control "public, max-age=«31536000¦604800»«, immutable¦»"
  </FilesMatch>
  <FilesMatch "\.(css|js)$">
    Header «set¦merge» Cache-Control "max-age=86400"
  </FilesMatch>
  <FilesMatch "\.(php|html)$">
    Header set Cache-Control "private, must-revalidate"
    Header set X-Robots-Tag "«noarchive¦noindex, nofollow»"
  </FilesMatch>
  Header unset Pragma
</IfModule>
""")

# --- security plugins
shape("wordfence", ".user.ini wp-content/uploads/evil.php wp-content/wflogs/config.php .git/config", r"""
# Wordfence WAF
<IfModule LiteSpeed>
php_value auto_prepend_file 'ROOTBASE/wordfence-waf.php'
</IfModule>
<IfModule lsapi_module>
php_value auto_prepend_file 'ROOTBASE/wordfence-waf.php'
</IfModule>
<Files ".user.ini">
<IfModule mod_authz_core.c>
	Require all denied
</IfModule>
<IfModule !mod_authz_core.c>
	Order deny,allow
	Deny from all
</IfModule>
</Files>
# END Wordfence WAF
«#Wordfence code disable code execution in uploads
<FilesMatch "evil\.php$">
Require all denied
</FilesMatch>¦<Files ~ "^\.ht|\.git">
Order allow,deny
Deny from all
</Files>»
""")
shape("solid-security", "wp-config.php readme.html wp-content/uploads/evil.php wp-includes/version.php xmlrpc.php ?author=1", r"""
# BEGIN Solid Security - Do not modify or remove this line
	# Protect System Files
	<files .htaccess>
		<IfModule mod_authz_core.c>
			Require all denied
		</IfModule>
		<IfModule !mod_authz_core.c>
			Order allow,deny
			Deny from all
		</IfModule>
	</files>
	<files wp-config.php>
		<IfModule mod_authz_core.c>
			Require all denied
		</IfModule>
	</files>
	<files readme.«html¦txt»>
		Require all denied
	</files>
	Options -Indexes
	<IfModule mod_rewrite.c>
		RewriteEngine On
		# Protect System Files
		RewriteRule ^wp-admin/install\.php$ - [F]
		RewriteRule ^wp-admin/includes/ - [F]
		RewriteRule !^wp-includes/ - [S=3]
		RewriteRule ^wp-includes/[^/]+\.php$ - [F]
		RewriteRule ^wp-includes/js/tinymce/langs/.+\.php - [F]
		RewriteRule ^wp-includes/theme-compat/ - [F]
		# Disable PHP in Uploads
		RewriteRule ^wp\-content/uploads/.*\.(?:php[1-7]?|pht|phtml?|phps)\.?$ - [NC,F]
		# Filter Request Methods
		RewriteCond %{REQUEST_METHOD} ^(TRACE|«DELETE¦TRACK») [NC]
		RewriteRule ^.* - [F]
		# Filter Suspicious Query Strings
		RewriteCond %{QUERY_STRING} \.\.\/ [OR]
		RewriteCond %{QUERY_STRING} \.(bash|git|hg|log|svn|swp|cvs) [NC,OR]
		RewriteCond %{QUERY_STRING} etc/passwd [NC,OR]
		RewriteCond %{QUERY_STRING} (<|%3C)script(>|%3E) [NC]
		RewriteRule ^.* - [F]
	</IfModule>
# END Solid Security - Do not modify or remove this line
""")
shape("all-in-one-security", "wp-config.php debug.log xmlrpc.php ?author=1 wp-comments-post.php a-post/", r"""
# BEGIN All In One WP Security
#AIOWPS_BASIC_HTACCESS_RULES_START
<Files .htaccess>
<IfModule !mod_authz_core.c>
order allow,deny
deny from all
</IfModule>
<IfModule mod_authz_core.c>
Require all denied
</IfModule>
</Files>
ServerSignature Off
LimitRequestBody «10485760¦104857600»
<Files wp-config.php>
<IfModule mod_authz_core.c>
Require all denied
</IfModule>
</Files>
#AIOWPS_BASIC_HTACCESS_RULES_END
#AIOWPS_PINGBACK_HTACCESS_RULES_START
<Files xmlrpc.php>
<IfModule mod_authz_core.c>
Require all denied
</IfModule>
</Files>
#AIOWPS_DEBUG_LOG_BLOCK_HTACCESS_RULES_START
<Files debug.log>
Require all denied
</Files>
#AIOWPS_IP_BLACKLIST_START
<IfModule mod_authz_core.c>
<RequireAll>
Require all granted
Require not ip 192.0.2.«1¦7»
Require not ip 198.51.100.0/24
</RequireAll>
</IfModule>
#AIOWPS_PREVENT_IMAGE_HOTLINKS_START
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteCond %{HTTP_REFERER} !^$
RewriteCond %{HTTP_REFERER} !^http(s)?://(.*)?\.example\.test [NC]
RewriteCond %{HTTP_REFERER} !^http(s)?://example\.test [NC]
RewriteRule \.(gif|jpe?g?|png)$ - [F,NC,L]
</IfModule>
#AIOWPS_SIX_G_START
<IfModule mod_rewrite.c>
RewriteCond %{REQUEST_METHOD} ^(debug|move|track) [NC]
RewriteRule ^(.*)$ - [F]
RewriteCond %{REQUEST_URI} ^(.*)?wp-comments-post\.php(.*)$
RewriteCond %{HTTP_REFERER} !^http(s)?://(.*)?\.test [NC,OR]
RewriteCond %{HTTP_USER_AGENT} ^$
RewriteRule .* http://127.0.0.1 [L]
</IfModule>
# END All In One WP Security
""")
shape("really-simple-ssl", "a-post/ a.html show.php", r"""
#Begin Really Simple Security
<IfModule mod_rewrite.c>
RewriteEngine on
«RewriteCond %{HTTPS} !=on [NC]
RewriteCond %{HTTP:X-Forwarded-Proto} !https¦RewriteCond %{HTTP:CF-Visitor} '"scheme":"http"'¦RewriteCond %{SERVER_PORT} !^443$
RewriteCond %{HTTP:X-Forwarded-Proto} !=https [NC]»
«RewriteCond %{REQUEST_URI} !^BASE/\.well-known/acme-challenge/¦»
RewriteRule ^(.*)$ https://%{HTTP_HOST}%{REQUEST_URI} [R=«301¦302¦301»,L]
</IfModule>
<IfModule mod_headers.c>
Header always set Strict-Transport-Security: "max-age=«63072000; includeSubDomains; preload¦31536000¦300»" env=HTTPS
Header always set Content-Security-Policy "upgrade-insecure-requests;"
Header always set X-Content-Type-Options "nosniff"
Header always set X-XSS-Protection "0"
Header always set Referrer-Policy: "strict-origin-when-cross-origin"
</IfModule>
#End Really Simple Security
""")
FIREWALL = r"""
<IfModule mod_rewrite.c>
	RewriteEngine On
	RewriteCond %{QUERY_STRING} ([a-z0-9]{«2000¦1200¦900»,}) [NC,OR]
	RewriteCond %{QUERY_STRING} (/|%2f)(:|%3a)(/|%2f) [NC,OR]
	RewriteCond %{QUERY_STRING} (`|<|>|\^|\|\\|0x00|%00|%0d%0a) [NC,OR]
	RewriteCond %{QUERY_STRING} (eval|concat|union)(.*)(select|\()(.*)(\)|from) [NC,OR]
	RewriteCond %{QUERY_STRING} (\\x00|\(\)\s\{|base64_(en|de)code) [NC,OR]
	RewriteCond %{QUERY_STRING} (globals|request)(=|\[|%[0-9A-Z]{0,2}) [NC]
	RewriteRule .* - [F«¦,L¦»]
</IfModule>
<IfModule mod_rewrite.c>
	RewriteCond %{REQUEST_URI} (\^|`|<|>|\\|\|) [NC,OR]
	RewriteCond %{REQUEST_URI} ([a-z0-9]{2000,}) [NC,OR]
	RewriteCond %{REQUEST_URI} (=?\\(\'|%27)/?)(\.) [NC,OR]
	RewriteCond %{REQUEST_URI} (\.(bak|conf?|htpa|inc|ini|sql|swp|ya?ml)(\?|$)) [NC,OR]
	RewriteCond %{REQUEST_URI} /(cgi-|etc/passwd|wp-config\.bak|(php|web)shell|c99|thumb(s?)\.php) [NC]
	RewriteRule .* - [F]
</IfModule>
<IfModule mod_rewrite.c>
	RewriteCond %{HTTP_USER_AGENT} ([a-z0-9]{2000,}) [NC,OR]
	RewriteCond %{HTTP_USER_AGENT} (&lt;|%0a|%0d|%27|%3c|%3e|%00|0x00) [NC,OR]
	RewriteCond %{HTTP_USER_AGENT} (acapbot|ahrefs|backdoor|evil|havij|masscan|nikto|sqlmap|wget|zgrab) [NC]
	RewriteRule .* - [F]
</IfModule>
<IfModule mod_rewrite.c>
	RewriteCond %{HTTP_REFERER} (semalt|todaperfeita|badsite) [NC]
	RewriteRule .* - [«F¦G¦R=404»]
</IfModule>
"""
shape("firewall-nG", "a.html?x=eval(1)from ?q=<script> config.bak cgi-bin/x ?globals=1 ?a=union+select+x+from wp-config.bak", FIREWALL)
shape("firewall-alias", "x.sql a.html author/1 %40eval/ wp-config.php.bak", r"""
<IfModule mod_alias.c>
	RedirectMatch 403 (?i)([a-z0-9]{2000,})
	RedirectMatch 403 (?i)(~|`|<|>|:|;|\{|\}|\[|\]|\|)
	RedirectMatch 403 (?i)/(\$(\&)?|\*|\"|\.|,|&|&amp;?)/?$
	RedirectMatch «403¦404¦410» (?i)\.(aspx?|bash|cfg|cgi|dll|exe|git|hg|jsp|log|sql|sw[po]|tar\.gz)$
	RedirectMatch 403 (?i)/(=|\$&|_mm|inc|cgi-|etc/passwd|muieblack)
</IfModule>
<IfModule mod_setenvif.c>
	SetEnvIfNoCase User-Agent ([a-z0-9]{2000,}) bad_bot
	SetEnvIfNoCase User-Agent (archiver|binlar|evil|nutch|sqlmap|zmeu) bad_bot
	<Limit GET POST PUT>
		Order Allow,Deny
		Allow from All
		Deny from env=bad_bot
	</Limit>
</IfModule>
""")
shape("bad-bots", "a.html show.php robots.txt", r"""
«SetEnvIfNoCase User-Agent "^$" block
BrowserMatchNoCase "evil" block
BrowserMatchNoCase "(wget|libwww)" block
Order Allow,Deny
Allow from all
Deny from env=block¦SetEnvIfNoCase User-Agent .*(evil|wget).* block
SetEnvIfNoCase Referer badsite block
<RequireAll>
Require all granted
Require not env block
</RequireAll>¦RewriteEngine On
RewriteCond %{HTTP_USER_AGENT} ^evil [NC,OR]
RewriteCond %{HTTP_USER_AGENT} ^Wget [OR]
RewriteCond %{HTTP_REFERER} badsite\.test [NC]
RewriteRule !^robots\.txt$ - [F,L]»
""")
shape("no-php-here", "wp-content/uploads/evil.php show.php a.html", r"""
«<FilesMatch "\.(?i:php|phtml|phar|pl|py|cgi)$">
Order allow,deny
Deny from all
</FilesMatch>¦<Files *.php>
Require all denied
</Files>¦RewriteEngine On
RewriteRule \.(php|phtml)$ - [F,NC]»
Options -Indexes «-ExecCGI¦¦»
""")

# --- images
shape("webp", "img.jpg img.png photo.jpeg none.jpg", r"""
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteCond %{HTTP_ACCEPT} image/webp
«RewriteCond %{REQUEST_FILENAME} (.*)\.(jpe?g|png|gif)$
RewriteCond %{REQUEST_FILENAME}.webp -f
RewriteCond %{QUERY_STRING} !type=original
RewriteRule (.+)\.(jpe?g|png|gif)$ %{REQUEST_URI}.webp [T=image/webp,L]¦RewriteCond %{DOCUMENT_ROOT}BASE/$1.$2.webp -f
RewriteRule (.+)\.(jpe?g|png)$ $1.$2.webp [T=image/webp,E=accept:1]¦RewriteCond ROOTBASE/$1.webp -f
RewriteRule ^(.+)\.(?:jpe?g|png)$ $1.webp [NC,T=image/webp,E=REQUEST_image,L]»
</IfModule>
<IfModule mod_headers.c>
  <FilesMatch "\.(jpe?g|png|gif|webp)$">
    Header append Vary Accept
  </FilesMatch>
</IfModule>
<IfModule mod_mime.c>
AddType image/webp .webp
</IfModule>
""")
shape("hotlinks", "img.jpg img.png doc.pdf hot.gif", r"""
RewriteEngine on
RewriteCond %{HTTP_REFERER} !^$
RewriteCond %{HTTP_REFERER} !^https?://(www\.)?example\.test«/.*$¦¦» [NC]
«¦RewriteCond %{HTTP_REFERER} !(google|bing)\. [NC]¦RewriteCond %{HTTP_USER_AGENT} !googlebot [NC]»
RewriteRule .*\.(jpe?g|gif|png|«bmp¦pdf¦webp»)$ «- [F,NC]¦http://example.test/hot.gif [R,NC]¦BASE/style.css [L]»
""")

# --- CMS
shape("drupal-7", "node/1 user/login sites/default/settings.php CHANGELOG.txt a.module backup.sql .git/config update.php?op=x", r"""
<FilesMatch "\.(engine|inc|info|install|make|module|profile|test|po|sh|.*sql|theme|tpl(\.php)?|xtmpl)(~|\.sw[op]|\.bak|\.orig|\.save)?$|^(\..*|Entries.*|Repository|Root|Tag|Template)$|^#.*#$">
  <IfModule mod_authz_core.c>
    Require all denied
  </IfModule>
  <IfModule !mod_authz_core.c>
    Order allow,deny
  </IfModule>
</FilesMatch>
Options -Indexes
Options +FollowSymLinks
ErrorDocument 404 «BASE/index.php¦BASE/missing.html»
DirectoryIndex index.php index.html index.htm
<IfModule mod_expires.c>
  ExpiresActive On
  ExpiresDefault A1209600
  <FilesMatch \.php$>
    ExpiresActive Off
  </FilesMatch>
</IfModule>
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteRule ^ - [E=protossl]
  RewriteCond %{HTTPS} on
  RewriteRule ^ - [E=protossl:s]
  RewriteRule "(^|/)\." - [F]
  RewriteBase BASE
  RewriteCond %{REQUEST_FILENAME} !-f
  RewriteCond %{REQUEST_FILENAME} !-d
  RewriteCond %{REQUEST_URI} !=/favicon.ico
  RewriteRule ^ «index.php¦index.php?q=$0» [L]
  <IfModule mod_headers.c>
    RewriteCond %{HTTP:Accept-encoding} gzip
    RewriteCond %{REQUEST_FILENAME}\.gz -s
    RewriteRule ^(.*)\.css $1\.css\.gz [QSA]
    RewriteRule \.css\.gz$ - [T=text/css,E=no-gzip:1]
    <FilesMatch "(\.js\.gz|\.css\.gz)$">
      Header set Content-Encoding gzip
      Header append Vary Accept-Encoding
    </FilesMatch>
  </IfModule>
</IfModule>
<IfModule mod_headers.c>
  Header always set X-Content-Type-Options nosniff
</IfModule>
""")
shape("drupal-11", "node/1 core/install.php core/modules/system/tests/https.php autoload.php composer.json web.config sites/default/settings.php", r"""
<FilesMatch "\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\.php)?|xtmpl|yml)(~|\.sw[op]|\.bak|\.orig|\.save)?$|^(\.(?!well-known).*|Entries.*|Repository|Root|Tag|Template|composer\.(json|lock)|web\.config|yarn\.lock|package\.json)$|^#.*#$|\.php(~|\.sw[op]|\.bak|\.orig|\.save)$">
  <IfModule mod_authz_core.c>
    Require all denied
  </IfModule>
</FilesMatch>
Options -Indexes
DirectoryIndex index.php index.html index.htm
AddType image/svg+xml svg svgz
AddEncoding gzip svgz
<IfModule mod_php.c>
  php_value assert.active                   0
</IfModule>
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteRule ^ - [E=protossl]
  RewriteCond %{HTTPS} on
  RewriteRule ^ - [E=protossl:s]
  RewriteRule "/\.|^\.(?!well-known/)" - [F]
  «¦RewriteCond %{HTTP_HOST} !^www\. [NC]
  RewriteRule ^ http%{ENV:protossl}://www.%{HTTP_HOST}%{REQUEST_URI} [L,R=301]¦RewriteCond %{HTTP_HOST} ^www\.(.+)$ [NC]
  RewriteRule ^ http%{ENV:protossl}://%1%{REQUEST_URI} [L,R=301]»
  RewriteBase BASE/
  RewriteCond %{REQUEST_URI} ^(.*)?/(install\.php) [OR]
  RewriteCond %{REQUEST_URI} ^(.*)?/(rebuild\.php)
  RewriteCond %{REQUEST_URI} !core
  RewriteRule ^ %1/core/%2 [L,QSA,R=301]
  RewriteCond %{REQUEST_FILENAME} !-f
  RewriteCond %{REQUEST_FILENAME} !-d
  RewriteCond %{REQUEST_URI} !=/favicon.ico
  RewriteRule ^ index.php [L]
  RewriteCond %{REQUEST_URI} !/core/modules/statistics/statistics\.php$
  RewriteCond %{REQUEST_URI} !/core/[^/]*\.php$
  RewriteCond %{REQUEST_URI} !/core/modules/system/tests/https?\.php
  RewriteCond %{REQUEST_URI} !BASE/(index|show)\.php
  RewriteRule "^(.+/.*|autoload)\.php($|/)" - [F]
</IfModule>
<IfModule mod_headers.c>
  Header always set X-Content-Type-Options nosniff
  RequestHeader unset Proxy
</IfModule>
""")
shape("backdrop", "node/1 files/x.txt settings.php index.php?q=node/1", r"""
<FilesMatch "\.(engine|inc|info|install|make|module|profile|test|po|sh|.*sql|theme|tpl(\.php)?|xtmpl)$|^(\..*|Entries.*|Repository|Root)$">
  Require all denied
</FilesMatch>
ErrorDocument 404 "«<html><head><title>404 Not Found</title></head><body><h1>Not Found</h1></body></html>¦Not here»"
<Files favicon.ico>
  ErrorDocument 404 "The requested file favicon.ico was not found."
</Files>
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteRule "(^|/)\.(?!well-known)" - [F]
  RewriteCond %{THE_REQUEST} \s/+(.*)index\.php\?q=([^\s&]*) [NC]
  RewriteRule ^index\.php$ BASE/%2? [R=301,L]
  RewriteCond %{REQUEST_FILENAME} !-f
  RewriteCond %{REQUEST_FILENAME} !-d
  RewriteCond %{REQUEST_URI} !=/favicon.ico
  RewriteRule ^(.*)$ index.php?q=$1 [L,QSA]
</IfModule>
""")
shape("joomla", "component/users/ index.php/home administrator/ ?mosConfig_x=1 ?x=base64_encode(1) api/index.php/v1/users language/en/", r"""
<IfModule autoindex>
  IndexIgnore *
</IfModule>
Options +FollowSymlinks
Options -Indexes
<IfModule mod_headers.c>
Header always set X-Content-Type-Options "nosniff"
</IfModule>
<Files ~ "\.svg$">
    <IfModule mod_headers.c>
        Header always set Content-Security-Policy "script-src 'none'"
    </IfModule>
</Files>
RewriteEngine On
RewriteCond %{QUERY_STRING} base64_encode[^(]*\([^)]*\) [OR]
RewriteCond %{QUERY_STRING} (<|%3C)([^s]*s)+cript.*(>|%3E) [NC,OR]
RewriteCond %{QUERY_STRING} GLOBALS(=|\[|\%[0-9A-Z]{0,2}) [OR]
RewriteCond %{QUERY_STRING} «_REQUEST¦mosConfig_[a-zA-Z_]{1,21}»(=|\[|\%[0-9A-Z]{0,2})
RewriteRule .* index.php [F]
«# RewriteBase /¦RewriteBase BASE/»
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteCond %{REQUEST_URI} ^«BASE¦»/api/
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule .* api/index.php [L]
RewriteCond %{REQUEST_URI} !^BASE/index\.php
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule .* index.php [L]
""")
shape("mediawiki", "wiki/Main_Page wiki/Talk:A_&_B wiki/C%2B%2B w/index.php?title=X images/x.txt", r"""
RewriteEngine On
RewriteRule ^/?wiki(/.*)?$ %{DOCUMENT_ROOT}BASE/index.php«¦?title=$1¦ » [L«¦,QSA,B¦»]
RewriteRule ^/?w/(.*)$ BASE/$1 [«L¦R=301,L¦PT»]
<IfModule mod_rewrite.c>
RewriteCond %{QUERY_STRING} \.[^\\/:*?\x22<>|%]+(#|\?|$) [nocase]
RewriteRule . - [forbidden]
</IfModule>
""")
shape("nextcloud", ".well-known/carddav .well-known/webfinger remote.php/dav/files data/x.txt config/x.txt ocs/v1.php lib/x.txt style.css index.php/apps", r"""
<IfModule mod_headers.c>
  <IfModule mod_setenvif.c>
    SetEnvIfNoCase ^Authorization$ "(.+)" XAUTHORIZATION=$1
    RequestHeader set XAuthorization %{XAUTHORIZATION}e env=XAUTHORIZATION
  </IfModule>
  <IfModule mod_env.c>
    Header onsuccess unset Referrer-Policy
    Header always set Referrer-Policy "«no-referrer¦same-origin»"
    Header onsuccess unset X-Frame-Options
    Header always set X-Frame-Options "SAMEORIGIN"
    Header onsuccess unset X-Robots-Tag
    Header always set X-Robots-Tag "noindex, nofollow"
    SetEnv modHeadersAvailable true
  </IfModule>
  <FilesMatch "\.(css|js|mjs|svg|gif|png|jpg|webp|ico|wasm|tflite)$">
    <If "%{QUERY_STRING} =~ /(^|&)v=/">
      Header set Cache-Control "max-age=15778463, immutable"
    </If>
    <Else>
      Header set Cache-Control "max-age=15778463"
    </Else>
  </FilesMatch>
  <FilesMatch "\.(otf|woff2?)$">
    Header set Cache-Control "max-age=604800"
  </FilesMatch>
</IfModule>
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteCond %{HTTP_USER_AGENT} DavClnt
  RewriteRule ^$ /remote.php/webdav/ [L,R=302]
  RewriteRule .* - [env=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
  RewriteRule ^\.well-known/carddav /remote.php/dav/ [R=301,L]
  RewriteRule ^\.well-known/(?!acme-challenge|pki-validation) index.php [QSA,L]
  RewriteRule ^(?:build|tests|config|lib|3rdparty|templates)/.* - [R=404,L]
  RewriteRule ^(?:\.(?!well-known)|autotest|occ|issue|indie|db_|console).* - [R=404,L]
</IfModule>
<IfModule mod_mime.c>
  AddType image/svg+xml svg svgz
  AddType application/wasm wasm
  AddEncoding gzip svgz
  AddType text/javascript mjs
</IfModule>
<IfModule mod_dir.c>
  DirectoryIndex index.php index.html
</IfModule>
<IfModule pagespeed_module>
  ModPagespeed Off
</IfModule>
AddDefaultCharset utf-8
Options -Indexes
«¦<IfModule mod_rewrite.c>
  RewriteRule . index.php [PT,E=PATH_INFO:$1]
  RewriteBase BASE/
</IfModule>»
""")
shape("matomo", "config/x.txt tmp/x.txt matomo.js matomo.php index.php core/x.txt lang/x.txt robots.txt", r"""
<Files "*">
  «<IfModule mod_authz_core.c>
    Require all granted
  </IfModule>¦<IfVersion >= 2.4>
    Require all granted
  </IfVersion>
  <IfVersion < 2.4>
    Allow from all
  </IfVersion>»
</Files>
<FilesMatch "\.(php|txt|md)$">
  Require all denied
</FilesMatch>
<FilesMatch "^(index|matomo|piwik|show)\.php$|^robots\.txt$">
  Require all granted
  Satisfy any
</FilesMatch>
""")
shape("phpmyadmin", "libraries/x.txt setup/ templates/x.txt index.php?route=/database doc/", r"""
«RedirectMatch 404 ^BASE/(libraries|setup/lib|templates|vendor)/¦<IfModule mod_authz_core.c>
<FilesMatch "\.(inc|sql|dist|lock|md)$">
Require all denied
</FilesMatch>
</IfModule>
RewriteEngine On
RewriteCond %{REQUEST_METHOD} !^(GET|POST|HEAD)$ [NC]
RewriteRule .* - [F,L]
RewriteCond %{QUERY_STRING} (phpinfo|allow_url_include) [NC]
RewriteRule .* - [F]
RewriteRule ^(libraries|templates)/ - [G]»
DirectoryIndex index.php
AddDefaultCharset utf-8
""")
shape("magento", "static/version123/style.css media/img.jpg media/none.jpg get.php errors/ app/etc/env.php rest/V1/x auth.json pub/", r"""
############################################
## overrides deployment configuration mode value
#   SetEnv MAGE_MODE developer
DirectoryIndex index.php
<IfModule mod_security.c>
    SecFilterEngine Off
</IfModule>
<IfModule mod_ssl.c>
    SSLOptions StdEnvVars
</IfModule>
<IfModule mod_rewrite.c>
    Options +FollowSymLinks
    RewriteEngine on
    RewriteBase BASE/
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
    RewriteCond %{REQUEST_METHOD} ^TRAC[EK]
    RewriteRule .* - [L,R=405]
    RewriteRule ^static/version\d+/(.+)$ $1 [L]
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^media/(.*)$ get.php?resource=$1 [L]
    ## never rewrite for existing files, directories and links
    RewriteCond %{REQUEST_URI} !^«BASE¦»/(media|skin|js)/
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_FILENAME} !-l
    RewriteRule .* index.php [L]
</IfModule>
AddDefaultCharset Off
AddType 'text/html; charset=UTF-8' html
<IfModule mod_expires.c>
    ExpiresDefault "access plus 1 year"
    ExpiresByType text/html A0
    ExpiresByType text/plain A0
</IfModule>
<Files composer.json>
    <IfVersion < 2.4>
        order allow,deny
        deny from all
    </IfVersion>
    <IfVersion >= 2.4>
        Require all denied
    </IfVersion>
</Files>
<Files auth.json>
    Require all denied
</Files>
ErrorDocument 404 «BASE/missing.html¦BASE/show.php»
ErrorDocument 403 BASE/missing.html
<IfModule mod_headers.c>
    Header set X-UA-Compatible "IE=edge"
    <FilesMatch "\.(appcache|atom|bbaw|css|crx|eot|gif|htc|ico|jpe?g|js|json|pdf|png|svg|txt|webp|woff)$">
        Header unset X-UA-Compatible
    </FilesMatch>
</IfModule>
""")
shape("prestashop", "1-home_default/x.jpg c/3-cat_x/y.jpg 12-34-large/x.jpg api/products images_ie/a.jpg 3-shirt.html robots.txt", r"""
# ~~start~~ Do not remove this comment
<IfModule mod_rewrite.c>
<IfModule mod_env.c>
SetEnv HTTP_MOD_REWRITE On
</IfModule>
RewriteEngine on
«RewriteRule . - [E=REWRITEBASE:BASE/]¦RewriteRule . - [E=REWRITEBASE:BASE/]
RewriteCond %{HTTP_HOST} ^example.test$»
RewriteRule ^api(?:/(.*))?$ %{ENV:REWRITEBASE}show.php?url=$1 [QSA,L]
RewriteRule ^upload/.+$ %{ENV:REWRITEBASE}index.php [QSA,L]
RewriteRule ^([0-9])(\-[_a-zA-Z0-9-]*)?(-[0-9]+)?/.+\.jpg$ %{ENV:REWRITEBASE}img.jpg?p=$1$2$3 [L]
RewriteRule ^([0-9])([0-9])(\-[_a-zA-Z0-9-]*)?(-[0-9]+)?/.+\.jpg$ %{ENV:REWRITEBASE}img/p/$1/$2/$1$2$3.jpg [L]
RewriteRule ^c/([0-9]+)(\-[\.*_a-zA-Z0-9-]*)(-[0-9]+)?/.+\.jpg$ %{ENV:REWRITEBASE}show.php?c=$1$2$3 [L]
RewriteRule ^images_ie/?([^/]+)\.(jpe?g|png|gif)$ js/jquery/plugins/fancybox/images/$1.$2 [L]
RewriteCond %{REQUEST_FILENAME} -s [OR]
RewriteCond %{REQUEST_FILENAME} -l [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^.*$ - [NC,L]
RewriteRule ^.*$ %{ENV:REWRITEBASE}index.php [NC,L]
</IfModule>
AddType application/vnd.ms-fontobject .eot
AddType font/ttf .ttf
<IfModule mod_headers.c>
	<FilesMatch "\.(ttf|ttc|otf|eot|woff|woff2|svg)$">
		Header set Access-Control-Allow-Origin "*"
	</FilesMatch>
    <FilesMatch "\.pdf$">
      Header set Content-Disposition "«Attachment¦inline»"
      Header set X-Content-Type-Options "nosniff"
    </FilesMatch>
</IfModule>
<Files composer.lock>
    Require all denied
</Files>
FileETag «none¦None»
ErrorDocument 404 BASE/index.php?controller=404
# ~~end~~ Do not remove this comment
""")
shape("opencart", "desktops/mac sitemap.xml googlebase.xml system/download/x image/x.txt x.tpl x.ini x.log", r"""
Options +SymLinksIfOwnerMatch
Options -Indexes
<FilesMatch "(?i)((\.tpl|\.twig|\.ini|\.log|(?<!robots)\.txt))">
 Require all denied
</FilesMatch>
RewriteEngine On
RewriteBase BASE/
RewriteRule ^sitemap.xml$ index.php?route=extension/feed/google_sitemap [L]
RewriteRule ^system/«storage¦download»/(.*) index.php?route=error/not_found [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_URI} !.*\.(ico|gif|jpg|jpeg|png|js|css)
RewriteRule ^([^?]*) index.php?_route_=$1 [L,QSA]
""")
shape("laravel", "users/5 users/5/ public/index.php api/x?y=1 storage/x.txt css/", r"""
<IfModule mod_rewrite.c>
    <IfModule mod_negotiation.c>
        Options -MultiViews -Indexes
    </IfModule>
    RewriteEngine On
    # Handle Authorization Header
    RewriteCond %{HTTP:Authorization} .
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
    «¦# Handle X-XSRF-Token Header
    RewriteCond %{HTTP:x-xsrf-token} .
    RewriteRule .* - [E=HTTP_X_XSRF_TOKEN:%{HTTP:X-XSRF-Token}]»
    # Redirect Trailing Slashes If Not A Folder...
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_URI} (.+)/$
    RewriteRule ^ %1 [L,R=301]
    # Send Requests To Front Controller...
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^ index.php [L]
</IfModule>
""")
shape("to-public", "users/5 public/a.html a.html css/x public/", r"""
<IfModule mod_rewrite.c>
   RewriteEngine on
   «RewriteRule ^$ public/ [L]
   RewriteRule (.*) public/$1 [L]¦RewriteCond %{REQUEST_URI} !^BASE/public
   RewriteRule ^(.*)$ public/$1 [NC,L,QSA]¦RewriteRule ^(?!public/)(.*)$ public/$1 [L]»
</IfModule>
""")
shape("symfony", "blog/2 index.php/blog app.php index.php index.php?x=1", r"""
DirectoryIndex index.php
<IfModule mod_negotiation.c>
    Options -MultiViews
</IfModule>
<IfModule mod_rewrite.c>
    RewriteEngine On
    RewriteCond %{REQUEST_URI}::$0 ^(/.+)/(.*)::\2$
    RewriteRule .* - [E=BASE:%1]
    RewriteCond %{HTTP:Authorization} .+
    RewriteRule ^ - [E=HTTP_AUTHORIZATION:%0]
    RewriteCond %{ENV:REDIRECT_STATUS} «=""¦^$»
    RewriteRule ^index\.php(?:/(.*)|$) %{ENV:BASE}/$1 [R=«301¦302»,L]
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^ %{ENV:BASE}/index.php [L]
</IfModule>
<IfModule !mod_rewrite.c>
    <IfModule mod_alias.c>
        RedirectMatch 307 ^/$ /index.php/
    </IfModule>
</IfModule>
""")
shape("front-controllers", "a/b/c a/b?c=d index.php/x img.jpg show.php/p", r"""
RewriteEngine On
«RewriteCond $1 !^(index\.php|img|robots\.txt)
RewriteRule ^(.*)$ BASE/index.php/$1 [L]¦RewriteCond %{REQUEST_FILENAME} !-f
RewriteRule ^(.+)$ index.php?url=$1 [QSA,L]¦RewriteCond %{REQUEST_FILENAME} -s [OR]
RewriteCond %{REQUEST_FILENAME} -l [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^.*$ - [NC,L]
RewriteCond %{REQUEST_URI}::$1 ^(/.+)(.+)::\2$
RewriteRule ^(.*) - [E=BASE:%1]
RewriteRule ^(.*)$ %{ENV:BASE}index.php [NC,L]¦RewriteRule !\.(js|gif|jpg|png|css|html|txt)$ index.php¦FallbackResource BASE/index.php»
""")

# --- hosters
shape("cpanel", "show.php info.php a.html phpinfo.php5", r"""
# php -- BEGIN cPanel-generated handler, do not edit
# Set the “ea-php81” package as the default “PHP” programming language.
<IfModule mime_module>
  AddHandler application/x-httpd-ea-php«81¦74¦83» .php .php8 .phtml
</IfModule>
# php -- END cPanel-generated handler, do not edit
# BEGIN cPanel-generated php ini directives, do not edit
<IfModule php«8¦7¦8»_module>
   php_flag display_errors Off
   php_value max_execution_time 30
   php_value memory_limit 128M
   php_value session.save_path "/var/cpanel/php/sessions/ea-php81"
</IfModule>
<IfModule lsapi_module>
   php_flag display_errors Off
</IfModule>
# END cPanel-generated php ini directives, do not edit
«ErrorDocument 403 BASE/missing.html¦ErrorDocument 404 BASE/missing.html¦»
""")

# --- snippets
shape("canonical-host", "a.html a-post/?x=1 sub/b.html index.php index.html", r"""
RewriteEngine On
«RewriteCond %{HTTP_HOST} ^example\.test$ [NC]
RewriteRule ^(.*)$ http://www.example.test/$1 [R=301,L]¦RewriteCond %{HTTP_HOST} ^www\.(.*)$ [NC]
RewriteRule ^(.*)$ http://%1/$1 [R=301,L]¦RewriteCond %{HTTP_HOST} !^example\.test$
RewriteCond %{HTTP_HOST} !^$
RewriteRule ^/?(.*) http://example.test/$1 [L,R,NE]¦RewriteCond %{HTTP_HOST} !^$
RewriteCond %{HTTP_HOST} !^www\. [NC]
RewriteCond %{HTTPS}s ^(?:on(s)|.*)
RewriteRule ^ http%1://www.%{HTTP_HOST}%{REQUEST_URI} [R=301,L]¦RewriteCond %{THE_REQUEST} ^[A-Z]{3,9}\ /.*index\.(html?|php)\ HTTP/
RewriteRule ^(.*)index\.(html?|php)$ http://example.test/$1 [R=301,L]»
""")
shape("trailing-slash", "page page/ sub sub/ a.html x/y/ x/y?z=1", r"""
RewriteEngine On
«RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_URI} !(.*)/$
RewriteRule ^(.*)$ BASE/$1/ [L,R=301]¦RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule ^(.*)/$ BASE/$1 [R=301,L]¦RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_URI} ^(.+)/$
RewriteRule ^(.+)/$ $1 [R=302,L,QSA]¦RewriteCond %{REQUEST_URI} !\.[^./]+$
RewriteCond %{REQUEST_URI} !/$
RewriteRule ^(.+)$ BASE/$1/ [R=308,L]»
""")
shape("no-extension", "a show sub/b a.html show.php show/", r"""
Options +FollowSymLinks -MultiViews
RewriteEngine On
RewriteBase BASE/
«RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_FILENAME}\.html -f
RewriteRule ^(.*)$ $1.html [NC,L]¦RewriteCond %{THE_REQUEST} ^GET\s/+(.+?)\.php[\s?] [NC]
RewriteRule ^ %1 [R=302,L,NE]
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_FILENAME}.php -f
RewriteRule ^(.*?)/?$ $1.php [L]¦RewriteRule ^([^.]+)$ $1.php [NC,L]»
""")
shape("maintenance", "a.html maintenance.html img.jpg show.php a-post/", r"""
«RewriteEngine On
RewriteCond %{REMOTE_ADDR} !^123\.45\.67\.89$
RewriteCond %{REQUEST_URI} !^BASE/maintenance\.html$ [NC]
RewriteCond %{REQUEST_URI} !\.(jpe?g|png|gif|css) [NC]
RewriteRule .* BASE/maintenance.html [R=302,L]¦ErrorDocument 503 BASE/maintenance.html
RewriteEngine On
RewriteCond %{ENV:REDIRECT_STATUS} !=503
RewriteCond %{HTTP_COOKIE} !preview=yes
RewriteRule !^maintenance\.html$ - [R=503,L]
Header always set Retry-After "3600"¦ErrorDocument 503 "Back soon"
RewriteEngine On
RewriteCond %{HTTP_USER_AGENT} !Mobile
RewriteRule ^ - [R=503,L]»
""")
shape("language", " de/ en/page a.html show.php ?lang=fr", r"""
RewriteEngine On
RewriteCond %{HTTP:Accept-Language} ^«de¦(fr|de)¦.*\bde\b» [NC]
«RewriteRule ^$ BASE/de/ [R=302,L]¦RewriteCond %{HTTP_COOKIE} !lang=
RewriteRule ^$ BASE/show.php?lang=%1 [L,CO=lang:de:.example.test:60]¦RewriteRule ^$ show.php?lang=de [QSA]»
RewriteRule ^(de|en|fr)/(.*)$ show.php?lang=$1&page=$2 [L,QSA]
<FilesMatch "\.(html)$">
Header set Content-Language "«de¦en¦fr»"
</FilesMatch>
""")
shape("mobile", "a.html page?full=1 show.php", r"""
RewriteEngine On
RewriteCond %{QUERY_STRING} (^|&)full=1(&|$)
RewriteRule ^ - [CO=full:1:%{HTTP_HOST}«¦:60¦:60:/:secure»]
RewriteCond %{HTTP_USER_AGENT} "android|blackberry|iphone|ipod|Mobile|windows phone" [NC]
RewriteCond %{HTTP_COOKIE} !\bfull=1
RewriteCond %{QUERY_STRING} !(^|&)full=1(&|$)
RewriteCond %{HTTP_HOST} !^m\.
RewriteRule ^(.*)$ «http://m.example.test/$1 [R=302,L]¦http://m.%{HTTP_HOST}%{REQUEST_URI} [R,L,NE]¦show.php?mobile=$1 [L,QSA]»
""")
AUTH = 'AuthType Basic\nAuthName "«Members¦Staging area»"\nAuthUserFile ROOT/../users\n'
shape("password", "a.html show.php wp-login.php admin/ sub/b.html", AUTH + r"""
«Require valid-user¦<Files "wp-login.php">
Require user bcrypt
</Files>¦Order deny,allow
Deny from all
Allow from 192.0.2.1
Require valid-user
Satisfy Any¦<RequireAny>
Require ip 192.0.2.0/24
Require user sha1
</RequireAny>¦ErrorDocument 401 "Please log in"
<FilesMatch "\.(html|php)$">
<Limit GET POST>
Require valid-user
</Limit>
</FilesMatch>»
""")
shape("addresses", "a.html show.php wp-login.php", r"""
«<Files wp-login.php>
order deny,allow
deny from all
allow from 192.0.2.1 127.0.0.1
</Files>¦<Files wp-login.php>
<RequireAny>
Require ip 192.0.2.1
Require ip 10.0.0.0/8
</RequireAny>
</Files>¦order allow,deny
allow from all
deny from 192.0.2. 198.51.100.0/24¦<Limit GET>
order deny,allow
deny from 127.
allow from 127.0.0.2
</Limit>¦<RequireAll>
Require all granted
Require not ip 127.0.0.0/30
</RequireAll>»
""")
shape("redirects", "old-page old-page/x?y=1 shop/item-12 blog/2019/05/title feed.rss gone/x caf%C3%A9 very/old.html", r"""
Redirect «301¦permanent¦302» BASE/old-page http://example.test/new-page
Redirect gone BASE/gone
RedirectMatch 301 ^BASE/shop/item-(\d+)$ http://shop.example.test/p/$1
RedirectMatch «301¦302¦permanent» ^BASE/blog/(\d{4})/(\d\d)/(.*)$ http://example.test/$3?from=$1-$2
RedirectMatch permanent "^BASE/feed\.(rss|xml)$" BASE/feed/
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule ^«very/old\.html¦very/(.*)\.html¦very(?:/.*)?»$ BASE/new«¦/$1¦» [R=301,L]
RewriteCond %{QUERY_STRING} ^y=(\d+)$
RewriteRule ^caf\xc3\xa9$ BASE/coffee?n=%1 [R=302,L«¦,NE¦,QSD»]
</IfModule>
""")
shape("redirection-plugin", "sample-page/ x-1/ x-2/?a=b tag/foo/ UPPER/Case", r"""
# Created by Redirection
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteCond %{QUERY_STRING} ^«¦a=b»$
RewriteRule ^sample-page«/?¦/?»$ BASE/other/ [R=301,L«¦,QSD»]
RewriteRule ^x-(\d+)/?$ BASE/y/$1/ [R=«301¦308»,L]
RewriteRule ^tag/(.*)$ BASE/topic/$1 [NC,R=307,L]
RewriteRule ^upper/case$ - [NC,G,L]
</IfModule>
# End of Redirection
""")
shape("security-headers", "a.html show.php none.html sub", r"""
<IfModule mod_headers.c>
«Header set X-Frame-Options SAMEORIGIN
Header set X-Content-Type-Options nosniff
Header set Referrer-Policy "no-referrer-when-downgrade"¦Header always set X-Frame-Options "DENY"
Header always set Permissions-Policy "geolocation=(self \"https://a.test\"), microphone=()"
Header always unset X-Powered-By
Header unset X-Powered-By¦Header always set Strict-Transport-Security "max-age=31536000" "expr=%{HTTPS} == 'on'"
Header set X-Frame-Options "SAMEORIGIN" env=!allow_frames
SetEnvIf Request_URI "show" allow_frames
Header always edit Set-Cookie ^(.*)$ $1;HttpOnly;SameSite=Strict¦Header add Link "<BASE/style.css>; rel=preload; as=style"
Header add Link "<BASE/app.js>; rel=preload; as=script"
Header append Vary "Accept, Origin"
SetEnvIf Origin "^https?://(.+\.)?example\.test$" XORIGIN=$0
Header set Access-Control-Allow-Origin %{XORIGIN}e env=XORIGIN»
</IfModule>
""")
shape("files-closed", ".env .git/config backup.sql composer.json debug.log wp-config.php.bak readme.txt x.ini a.html~", r"""
«<FilesMatch "^\.">
Require all denied
</FilesMatch>
<FilesMatch "\.(sql|log|ini|bak|env)$">
Require all denied
</FilesMatch>¦RedirectMatch 404 /\..*$
<Files ~ "(^composer\.(json|lock)$|\.sql$|~$)">
Order Deny,Allow
Deny from all
</Files>¦<IfModule mod_rewrite.c>
RewriteEngine on
RewriteCond %{SCRIPT_FILENAME} -d [OR]
RewriteCond %{SCRIPT_FILENAME} -f
RewriteRule "(^|/)\.(?!well-known)" - [F]
</IfModule>
<FilesMatch "(\.(bak|config|dist|fla|inc|ini|log|psd|sh|sql|swp)|~)$">
<IfModule mod_authz_core.c>
Require all denied
</IfModule>
</FilesMatch>»
""")
shape("types", "app.js doc.pdf font.woff2 data.json page.shtml x.svg archive.tar.gz manual.html.de", r"""
<IfModule mod_mime.c>
«AddType application/javascript js mjs
AddType font/woff2 woff2
AddType application/manifest+json webmanifest
AddCharset utf-8 .css .js .json¦AddType application/octet-stream .pdf .zip
AddEncoding x-gzip .gz
AddLanguage de .de¦ForceType text/plain
<FilesMatch "\.json$">
ForceType application/ld+json
</FilesMatch>»
</IfModule>
AddDefaultCharset «utf-8¦ISO-8859-1¦Off»
«<FilesMatch "\.pdf$">
Header set Content-Disposition attachment
</FilesMatch>¦DefaultType none¦DirectoryIndex a.html index.php»
""")
shape("index-and-errors", " sub/ none.html closed.txt empty/ wp-content/", r"""
DirectoryIndex «a.html¦show.php index.php¦none.php readme.txt»
Options -Indexes
ErrorDocument 404 «BASE/missing.html¦"<h1>Nothing here</h1>"¦/none/at/all.html»
ErrorDocument 403 «"Closed"¦BASE/show.php?error=403¦http://example.test/closed»
<Files closed.txt>
Require all denied
</Files>
""")
shape("boilerplate", "a.html app.js img.png font.woff2 .git/config style.v12.css x.appcache", r"""
<IfModule mod_setenvif.c>
    <IfModule mod_headers.c>
        <FilesMatch "\.(bmp|cur|gif|ico|jpe?g|png|svgz?|webp)$">
            SetEnvIf Origin ":" IS_CORS
            Header set Access-Control-Allow-Origin "*" env=IS_CORS
        </FilesMatch>
    </IfModule>
</IfModule>
<IfModule mod_headers.c>
    Header set X-UA-Compatible "IE=edge" "expr=%{CONTENT_TYPE} =~ m#text/html#i"
</IfModule>
<IfModule mod_mime.c>
    AddType application/rss+xml rdf rss
    AddType text/javascript js mjs
    AddCharset utf-8 .atom .css .js .rss .vtt
</IfModule>
<IfModule mod_rewrite.c>
    RewriteEngine On
    Options +FollowSymlinks
    RewriteCond %{HTTPS} =on
    RewriteRule ^ - [env=proto:https]
    RewriteCond %{HTTPS} !=on
    RewriteRule ^ - [env=proto:http]
    RewriteCond %{REQUEST_URI} "!(^|/)\.well-known/([^./]+./?)+$" [NC]
    RewriteCond %{SCRIPT_FILENAME} -d [OR]
    RewriteCond %{SCRIPT_FILENAME} -f
    RewriteRule "(^|/)\." - [F]
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^(.+)\.(\w+)\.(bmp|css|cur|gif|ico|jpe?g|m?js|png|svgz?|webp)$ $1.$3 [L]
</IfModule>
FileETag «None¦None»
<IfModule mod_headers.c>
    Header «unset ETag¦set X-Set 1»
</IfModule>
""")
