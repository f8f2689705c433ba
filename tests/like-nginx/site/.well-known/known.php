<?php require __DIR__ . '/../../lib/dump.php';
