<?php
namespace Bench\PluginNUMBER;

defined('ABSPATH') || exit;

/** Part PART: a class of the usual size that adds hooks and has fields. */
final class PartPART extends Service
{
    public const NAME = 'part_PART';
    private const STATES = ['draft' => 0, 'pending' => 1, 'active' => 2, 'paused' => 3, 'closed' => 4];
    private array $entries = [];

    protected function hooks(): void
    {
        add_filter('bench_NUMBER_part_PART', [$this, 'value'], 10, 2);
        add_action('save_post', [$this, 'saved'], 20, 2);
        add_filter('bench_part_links', [$this, 'links']);
        add_filter('bench_product', [$this, 'product'], 10 + PART % 5, 2);
        add_action('wp_ajax_bench_NUMBER_PART', [$this, 'table']);
        add_action('wp_ajax_nopriv_bench_NUMBER_PART', [$this, 'table']);
    }

    protected function fields(): array
    {
        return [
            'part_PART_title' => ['label' => __('Title', 'bench-NUMBER'), 'class' => ['wide'], 'required' => true],
            'part_PART_state' => ['label' => __('State', 'bench-NUMBER'), 'type' => 'select', 'options' => self::STATES, 'priority' => 20],
            'part_PART_text' => ['label' => __('Text', 'bench-NUMBER'), 'type' => 'textarea', 'class' => ['wide', 'tall'], 'priority' => 5],
            'part_PART_amount' => ['label' => __('Amount', 'bench-NUMBER'), 'type' => 'number', 'default' => 1, 'class' => ['narrow']],
            'part_PART_unit' => ['label' => __('Unit', 'bench-NUMBER'), 'type' => 'select', 'options' => ['kg', 'g', 'l'], 'default' => 'kg'],
            'part_PART_from' => ['label' => __('From', 'bench-NUMBER'), 'type' => 'date', 'class' => ['narrow', 'first'], 'priority' => 15],
            'part_PART_until' => ['label' => __('Until', 'bench-NUMBER'), 'type' => 'date', 'class' => ['narrow', 'last'], 'priority' => 16],
        ];
    }

    public function value($value, $arguments = [])
    {
        return is_array($value) ? array_merge($value, $arguments, [self::NAME => $this->settings['mode']]) : $value;
    }

    public function product(array $data, $post): array
    {
        if (isset($data['sku']) && $post->ID % 50 === PART % 50) {
            $data[self::NAME] = $this->settings['mode'];
        }
        return $data;
    }

    public function saved($id, $post): void
    {
        if ($post->post_type === 'bench_NUMBER_entry') {
            update_post_meta($id, '_part_PART', $this->value([], ['time' => time()]));
        }
    }

    public function links(array $links): array
    {
        $links[self::NAME] = esc_url(add_query_arg('part', 'PART', home_url('/')));
        return $links;
    }

    public function add(string $name, string $state = 'draft'): bool
    {
        if (!isset(self::STATES[$state]) || isset($this->entries[$name])) {
            return false;
        }
        $this->entries[$name] = ['state' => self::STATES[$state], 'name' => sanitize_text_field($name)];
        return true;
    }

    public function remove(string $name): void
    {
        unset($this->entries[$name]);
    }

    public function in_state(string $state): array
    {
        return array_filter($this->entries, fn ($entry) => $entry['state'] === (self::STATES[$state] ?? -1));
    }

    public function table(): string
    {
        $rows = array_map(fn ($entry) => sprintf('<tr><td>%s</td><td>%d</td></tr>', esc_html($entry['name']), $entry['state']), $this->entries);
        return '<table>' . implode("\n", $rows) . '</table>';
    }
}

Service::$all[] = PartPART::class;
