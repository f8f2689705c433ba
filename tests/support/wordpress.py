"""A new WordPress on a MariaDB, as `millrace new wordpress` makes it."""

import subprocess
import sys
from pathlib import Path

import rig

# The classic theme of Debian's package wordpress-theme-twentytwentyone.
CLASSIC = Path("/usr/share/wordpress/wp-content/themes/twentytwentyone")
OFFLINE = "define('DISABLE_WP_CRON', true); define('WP_HTTP_BLOCK_EXTERNAL', true);"


def new_wordpress(root, database, *options, name="wordpress", grants=None, constants=""):
    """Makes it below `root`, with a database of that name; it asks no other server. `constants`: more PHP for wp-config.php. Ends the test if it fails."""
    database.sql(f"CREATE DATABASE {name}; GRANT ALL ON {grants or f'{name}.*'} TO 'wp'@'localhost' IDENTIFIED BY 'secret'")
    where = f"mysql://wp:secret@localhost/{name}?socket={database.socket}"
    made = subprocess.run([rig.program("millrace"), "new", "wordpress", root, "--db", where, *options], capture_output=True, text=True, timeout=600)
    if made.returncode:
        sys.exit(f"not ok: `millrace new wordpress` failed:\n{made.stdout}{made.stderr}")
    config = root / "wp-config.php"
    config.write_text(config.read_text().replace("<?php", f"<?php\n{OFFLINE} {constants}", 1))
    (root / "wp-content" / "mu-plugins").mkdir(exist_ok=True)
