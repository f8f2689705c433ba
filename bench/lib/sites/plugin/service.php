<?php
namespace Bench\PluginNUMBER;

interface Starts
{
    public function init(): void;
}

abstract class Service implements Starts
{
    /** @var list<class-string<self>> */
    public static array $all = [];
    protected array $fields = [];

    public function __construct(protected array $settings)
    {
        $this->hooks();
    }

    abstract protected function hooks(): void;

    /** What settings pages and forms are made of. */
    abstract protected function fields(): array;

    public function init(): void
    {
        foreach ($this->fields() as $id => $field) {
            $field = wp_parse_args($field, ['type' => 'text', 'default' => '', 'class' => [], 'priority' => 10]);
            $field['id'] = sanitize_key($id);
            $field['class'] = array_map('sanitize_html_class', $field['class']);
            $this->fields[$id] = apply_filters('bench_NUMBER_field', $field, $id);
            register_meta('post', "_bench_NUMBER_$id", ['object_subtype' => 'bench_NUMBER_entry', 'type' => 'string', 'single' => true]);
        }
        uasort($this->fields, fn ($a, $b) => $a['priority'] <=> $b['priority']);
    }
}
