<?php
/**
 * Requests that begin in an image of the process (php.rewind). What the boot of the image knows of objects stays in it; the server is
 * asked whether it is still so. A boot that has changed objects is not made an image of: requests that begin behind it would not
 * change them.
 */
trait Millrace_Rewound
{
    /** Asks whether what the boot knows has changed: an operation. */
    private string $boot = '';

    /**
     * An image of this process is about to be made: closes the connection, because none may be open in an image. `$except`: groups that each
     * request reads again. Where there is to be no image after all, reconnect() goes on.
     *
     * @return string|null why there can be no image
     */
    public function before_image(array $except): ?string
    {
        $this->server->send_waiting();
        if ($this->server->is_off() || $this->page === '') {
            return 'the object cache does not answer, or was flushed';
        }
        if ($this->server->has_changed) {
            return 'the boot changes objects of the object cache';
        }
        [$count, $known] = [0, ''];
        foreach (array_keys($this->used) as $name) {
            [$group, $id] = explode("\0", $name, 2);
            if ($this->is_shared($group) && !in_array($group, $except, true)) {
                $as_of = $this->as_of($group, $id);
                $as_of = $as_of === self::LATEST ? $this->server->clock : $as_of;
                $known .= pack('PC', $as_of, $this->is_here($group, $id)) . $this->name($group, $id);
                $count++;
            }
        }
        $this->boot = "\xa" . pack('V', $count) . $known;
        $this->server->disconnect();
        return null;
    }

    /** Goes on with a connection of its own, and with what was known and when. */
    public function reconnect(): void
    {
        $this->server->reconnect();
    }

    /** A request begins in the image. False: what the boot knows of objects is not so any more. */
    public function in_image(): bool
    {
        $this->fetched = $this->missing = [];
        $this->reconnect();
        $is_same = ($this->server->exchange($this->boot, 'u')[0][0] ?? 0) === 1;
        if ($is_same) {
            $this->prefetch();
        }
        return $is_same;
    }

    /** Forgets the values of a group in this process. */
    public function forget_group(string $group): void
    {
        unset($this->cache[$group], $this->as_of[$group], $this->fetched[$group], $this->missing[$group]);
    }
}
