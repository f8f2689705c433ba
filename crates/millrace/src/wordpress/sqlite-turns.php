/*
 * Added by Millrace. This version of the plugin begins the transaction of every statement as a reader. When two requests then
 * want to write, SQLite refuses one of them at once (SQLITE_BUSY: each would wait for the other), and what it wrote is lost.
 * A transaction that begins as a writer waits for its turn.
 */
if ( extension_loaded( 'pdo_sqlite' ) ) {
	require_once $sqlite_plugin_implementation_folder_path . '/constants.php';

	class Millrace_SQLite extends PDO {
		public $only_reads = false;

		public function prepare( string $query, array $options = array() ): PDOStatement|false {
			return parent::prepare( 'BEGIN' === $query && ! $this->only_reads ? 'BEGIN IMMEDIATE' : $query, $options );
		}
	}

	if ( is_dir( FQDBDIR ) ) {
		$GLOBALS['@pdo'] = new Millrace_SQLite(
			'sqlite:' . FQDB,
			null,
			null,
			array(
				PDO::ATTR_ERRMODE           => PDO::ERRMODE_EXCEPTION,
				PDO::ATTR_STRINGIFY_FETCHES => true,
				PDO::ATTR_TIMEOUT           => 10,
			)
		);
		add_filter(
			'pre_query_sqlite_db',
			function ( $result, $translator, $statement ) {
				$GLOBALS['@pdo']->only_reads = (bool) preg_match( '/^\s*\(?\s*(SELECT|SHOW|DESCRIBE|DESC|EXPLAIN)\b/i', $statement );
				return $result;
			},
			10,
			3
		);
	}
}

