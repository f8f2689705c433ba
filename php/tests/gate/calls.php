<?php
/**
 * Calls of functions that are taken at random from the function table of the PHP in use, with arguments made of what reflection says, in a random way: lines
 * with the name of the function and an expression. For php/tests/gate.rs; `COUNT` and `SEED` are in the query.
 */

const VALUES = [
    'string' => ["'name'", "'2026-01-02 03:04:05'", "'now'", "__DIR__ . '/read'", "'a=1&b=2'", "'Y-m-d H:i:s'", "'c'", "'[1,2]'"],
    'int' => ['1', '2', '0', '7'],
    'float' => ['1.5'],
    'bool' => ['true', 'false'],
    'array' => ["['b' => 2, 'a' => 1]", '[3, 1, 2]'],
    'iterable' => ['[3, 1, 2]'],
    'callable' => ["'strtolower'", '(fn ($x = 0) => $x)'],
    'object' => ['new ArrayObject([1, 2])'],
    'mixed' => ["'text'", '5', '[1]'],
    'DateTimeInterface' => ["new DateTime('2026-01-02 03:04:05')", 'new DateTime'],
    'DateTime' => ['new DateTime'],
    'DateTimeZone' => ["new DateTimeZone('Asia/Tokyo')"],
    'DateInterval' => ["new DateInterval('P1D')"],
    'Traversable' => ['new ArrayIterator([1, 2])'],
    'Iterator' => ['new ArrayIterator([1, 2])'],
];
/** What ends, blocks or harms the machine of the test; nothing of it is pure. */
const NEVER = '/^(posix_(kill|set|mk|initgroups)|proc_|pcntl_|dl$|readline|.*sleep|time_sleep_until|fastcgi_finish_request|exec|system|passthru|shell_exec|popen|mail|mb_send_mail'
    . '|syslog|openlog|sem_|shm|msg_|ftok|l?chown|l?chgrp|chmod|unlink|rename|rmdir|symlink|link|opcache_(reset|invalidate|compile_file)|set_time_limit|ignore_user_abort|millrace_|ini_(set|alter)'
    . '|dns_|gethostby|checkdns|getmxrr|fsockopen|stream_socket|ftp_|get_headers|error_log|headers_send|register_shutdown|header_register|ob_|output_|flush|gc_|chroot|cli_|umask|putenv|pfsockopen|stream_wrapper|spl_autoload|set_(error|exception)_handler|debug_|error_reporting'
    . '|var_dump|print_r|phpinfo|phpcredits|call_user|forward_static|get_defined|get_declared|get_resources|trigger_error|user_error|assert|chdir|sapi_windows|class_alias|define$|func_)/';

function pick(array $from): mixed
{
    return $from[array_rand($from)];
}

/** An expression for a parameter; null: there is none. */
function argument(ReflectionParameter $parameter): ?string
{
    $type = $parameter->getType();
    $types = $type instanceof ReflectionUnionType ? $type->getTypes() : [$type];
    $names = array_map(fn ($type) => $type instanceof ReflectionNamedType ? $type->getName() : 'mixed', $types);
    $known = array_values(array_filter($names, fn ($name) => isset(VALUES[$name])));
    return $known ? pick(VALUES[pick($known)]) : ($type?->allowsNull() ? 'null' : null);
}

/** Arguments with commas between them, without those that may be left out in half of the calls; null: they cannot be made. */
function arguments(ReflectionFunctionAbstract $function): ?array
{
    $made = [];
    foreach ($function->getParameters() as $parameter) {
        if ($parameter->isOptional() && ($parameter->isVariadic() || rand(0, 1))) {
            break;
        }
        if ($parameter->isPassedByReference() && !$parameter->canBePassedByValue()) {
            return null;
        }
        $one = argument($parameter);
        if ($one === null) {
            return null;
        }
        $made[] = $one;
    }
    return $made;
}

function of_function(string $name, array $arguments): string
{
    $list = implode(', ', $arguments);
    return pick([
        "$name($list)", "call_user_func('$name'" . ($list ? ", $list" : '') . ')', "call_user_func_array('$name', [$list])", "(fn () => $name($list))()", "$name(...)($list)",
        "Closure::fromCallable('$name')($list)", "(new ReflectionFunction('$name'))->invoke($list)", included("$name($list)"),
        ...count($arguments) === 1 ? ["array_map('$name', [$list])", "array_map($name(...), [$list])"] : [],
    ]);
}

/** The same in a file of its own. */
function included(string $code): string
{
    $file = md5($code) . '.inc';
    file_put_contents(__DIR__ . "/$file", "<?php return $code;");
    return "include __DIR__ . '/$file'";
}

function of_method(ReflectionMethod $method, array $arguments): ?string
{
    [$class, $name, $list] = [$method->class, $method->name, implode(', ', $arguments)];
    if ($method->isStatic()) {
        return pick(["\\$class::$name($list)", "call_user_func(['$class', '$name']" . ($list ? ", $list" : '') . ')', "\\$class::$name(...)($list)"]);
    }
    $constructor = (new ReflectionClass($class))->getConstructor();
    $made = $constructor ? ($constructor->isPublic() ? arguments($constructor) : null) : [];
    if ($made === null) {
        return null;
    }
    $object = "new \\$class(" . implode(', ', $made) . ')';
    $is_final = (new ReflectionClass($class))->isFinal();
    return pick(["($object)->$name($list)", "call_user_func([$object, '$name']" . ($list ? ", $list" : '') . ')', "(new ReflectionMethod('$class', '$name'))->invoke($object" . ($list ? ", $list" : '') . ')',
        ...$is_final ? [] : ['(' . str_replace("new \\$class(", 'new class(', substr($object, 0, -1)) . ") extends \\$class {})->$name($list)"]]);
}

parse_str($_SERVER['QUERY_STRING'], $query);
mt_srand((int) $query['SEED']);
$all = array_values(array_filter(get_defined_functions()['internal'], fn ($name) => !preg_match(NEVER, $name)));
foreach (get_declared_classes() as $class) {
    $reflection = new ReflectionClass($class);
    if ($reflection->isInternal() && $reflection->isInstantiable() && !preg_match('/^(FFI|Fiber|Phar|SplFileObject|SplTempFileObject|php_user_filter)/', $class)) {
        foreach ($reflection->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
            if ($method->class === $class && !$method->isConstructor() && !$method->isDestructor() && !$method->isAbstract() && $method->name[0] !== '_') {
                $all[] = $method;
            }
        }
    }
}
for ($count = 0; $count < (int) $query['COUNT'];) {
    $one = pick($all);
    $function = $one instanceof ReflectionMethod ? $one : new ReflectionFunction($one);
    $arguments = arguments($function);
    $code = $arguments === null ? null : ($one instanceof ReflectionMethod ? of_method($one, $arguments) : of_function($one, $arguments));
    if ($code !== null) {
        $count++;
        echo $one instanceof ReflectionMethod ? "$one->class::$one->name" : $one, "\t$code\n";
    }
}
