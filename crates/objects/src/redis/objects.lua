-- The objects of a site on a Redis or Valkey server: what store/ is in Rust, with the same protocol (protocol.rs) and the same rules
-- (store/mod.rs, store/fields.rs). A frame is one call of this script, so that nothing comes between its operations.
--
-- KEYS[1]  the site's state, a hash. Its fields:
--            r  run id of the Redis process   g  generation   c  clock   f  floor   F  ticks of flushed groups
--            k  group NUL key  ->  tick of the key's last change
--          All of it is one key: if Redis evicts that, it forgets ticks and generation together, and the next frame begins a generation.
-- KEYS[1]:GENERATION:GROUP NUL KEY  an object: a string (version, format, bytes), or a hash of fields.
-- ARGV     run id, generation as the caller knows it, room for objects in the answer, maximum size of an object, frame
--
-- A generation ends with a flush, with a restart of Redis - which may have read an old state from its disk -, and if a frame fails in
-- the middle. Objects of an old generation are never read again. Numbers are exact below 2^53: microseconds since 1970 are.

local state, run, known, room, most, frame = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
-- Seconds that an object without an expiry stays: leftovers go in any case.
local LONGEST = 7 * 86400
-- Changes that are remembered key by key; groups that were flushed on their own; removed fields of an object.
local CHANGES, GROUPS, REMOVED = 16384, 1024, 1024
local EXACT = 2 ^ 53
local INTEGER, SERIALIZED = 1, 3

local generation, clock, floor, flushed
local answer, length = {}, 0
local counts = {lookups = 0, hits = 0, stored = 0, refused = 0, deleted = 0, flushes = 0}

local function text(number)
    return string.format('%.0f', number)
end

local function begin(tick)
    clock = tick
    generation, floor, flushed = text(clock), clock, {}
    redis.call('UNLINK', state)
    redis.call('HSET', state, 'r', run, 'g', generation, 'c', generation, 'f', generation)
end

local function load()
    local found = redis.call('HMGET', state, 'r', 'g', 'c', 'f', 'F')
    clock = tonumber(found[3] or 0)
    if found[1] ~= run or not found[2] then
        -- Higher than all ticks of a state that is lost.
        local time = redis.call('TIME')
        return begin(math.max(clock + 1, time[1] * 1000000 + time[2]))
    end
    generation, floor = found[2], tonumber(found[4])
    flushed = found[5] and cmsgpack.unpack(found[5]) or {}
end

local function say(bytes)
    answer[#answer + 1] = bytes
    length = length + #bytes
end

local function result(status, tick)
    say(struct.pack('<BI8', status, tick))
end

local function place(group, key)
    return state .. ':' .. generation .. ':' .. group .. '\0' .. key
end

-- An object: version, format, bytes, its TTL stays with Redis; or the hash of a key with fields; nil: nothing that is valid.
local function serialize(at)
    local all, parts, count = redis.call('HGETALL', at), {}, 0
    for i = 1, #all, 2 do
        local name, field = all[i], all[i + 1]
        if name:sub(1, 1) == '=' and field:byte(9) == 1 then
            count = count + 1
            parts[#parts + 1] = name:sub(2) .. field:sub(10)
        end
    end
    return 'a:' .. count .. ':{' .. table.concat(parts) .. '}'
end

local function version_of(group, at)
    local found = redis.pcall('GET', at)
    if type(found) == 'string' then
        return struct.unpack('<I8', found), found
    elseif type(found) == 'table' then
        return tonumber(redis.call('HGET', at, '!version')), nil
    end
end

local function live(group, key)
    local at = place(group, key)
    local version, found = version_of(group, at)
    if not version or version <= (flushed[group] or 0) then
        return nil
    elseif found then
        return version, found:byte(9), found:sub(10)
    elseif redis.call('HGET', at, '!whole') ~= '1' then
        return nil
    end
    local bytes = redis.call('HGET', at, '!text')
    if not bytes then
        bytes = serialize(at)
        redis.call('HSET', at, '!text', bytes)
    end
    return version, SERIALIZED, bytes
end

-- The tick of the last change of a key.
local function changed(group, key)
    local tick = redis.call('HGET', state, 'k' .. group .. '\0' .. key)
    return math.max(tonumber(tick or 0), tick and 0 or floor, version_of(group, place(group, key)) or 0, flushed[group] or 0)
end

local function tick_of(group, key)
    clock = clock + 1
    redis.call('HSET', state, 'k' .. group .. '\0' .. key, text(clock))
    return clock
end

local function put(group, key, format, bytes, seconds)
    local tick = tick_of(group, key)
    local expiry = seconds > 0 and math.min(seconds, 2 ^ 31) or LONGEST
    redis.call('SET', place(group, key), struct.pack('<I8B', tick, format) .. bytes, 'EX', text(expiry))
    return tick
end

local function remove(group, key)
    redis.call('UNLINK', place(group, key))
    return tick_of(group, key)
end

local function stored(status, tick)
    counts.stored = counts.stored + (status == 1 and 1 or 0)
    counts.refused = counts.refused + (status == 0 and 1 or 0)
    result(status, tick)
end

-- Fields: version u64, 1 if there is a value, value.

local function field_of(at, name)
    local field = redis.call('HGET', at, '=' .. name)
    return field and struct.unpack('<I8', field), field
end

local function put_field(at, map, name, value, version)
    local _, old = field_of(at, name)
    map.bytes = map.bytes + #name + #(value or '') - (old and #name + #old - 9 or 0)
    map.removed = map.removed + (value and 0 or 1)
    redis.call('HSET', at, '=' .. name, struct.pack('<I8B', version, value and 1 or 0) .. (value or ''))
end

-- The fields of a key; new ones if it has none.
local function fields_of(group, key)
    local at, tick = place(group, key), changed(group, key)
    local version, object = version_of(group, at)
    if object or not version or version <= (flushed[group] or 0) then
        redis.call('UNLINK', at)
        return at, {whole = false, floor = tick, fill = tick, bytes = 0, removed = 0}
    end
    local found = redis.call('HMGET', at, '!whole', '!floor', '!fill', '!bytes', '!removed')
    return at, {whole = found[1] == '1', floor = tonumber(found[2]), fill = tonumber(found[3]), bytes = tonumber(found[4]), removed = tonumber(found[5])}
end

local function save_fields(group, key, at, map)
    local tick = tick_of(group, key)
    redis.call('HDEL', at, '!text')
    redis.call('HSET', at, '!whole', map.whole and 1 or 0, '!floor', text(map.floor), '!fill', text(map.fill), '!bytes', map.bytes,
        '!removed', map.removed, '!version', text(tick))
    redis.call('EXPIRE', at, LONGEST)
    return tick
end

-- From now on all fields without a value may have changed as late as the last of those that were removed.
local function forget_removed(at, map)
    local all = redis.call('HGETALL', at)
    for i = 1, #all, 2 do
        if all[i]:sub(1, 1) == '=' and all[i + 1]:byte(9) == 0 then
            map.floor = math.max(map.floor, (struct.unpack('<I8', all[i + 1])))
            map.bytes = map.bytes - (#all[i] - 1)
            redis.call('HDEL', at, all[i])
        end
    end
    map.fill, map.removed = math.max(map.fill, map.floor), 0
end

local function change_fields(group, key, changes)
    local at, map = fields_of(group, key)
    local tick, is_sure = clock + 1, true
    for _, change in ipairs(changes) do
        local kind, as_of, name, value = unpack(change, 1, 4)
        local version = field_of(at, name) or map.floor
        if kind == 3 then
            if version <= as_of and map.whole then
                put_field(at, map, name, value, version)
            end
        elseif version > as_of then
            put_field(at, map, name, nil, tick)
            map.whole, map.fill, is_sure = false, tick, false
        else
            put_field(at, map, name, value, tick)
        end
    end
    if map.removed > REMOVED then
        forget_removed(at, map)
    end
    tick = map.bytes > most and remove(group, key) or save_fields(group, key, at, map)
    stored(is_sure and 1 or 0, tick)
end

local function fill(group, key, as_of, filled)
    if live(group, key) then
        return stored(2, clock)
    end
    local at, map = fields_of(group, key)
    if map.whole or as_of < map.fill then
        return stored(0, save_fields(group, key, at, map))
    end
    local fresh = {whole = true, floor = map.floor, fill = map.fill, bytes = 0, removed = 0}
    local values, old = {}, redis.call('HGETALL', at)
    for _, field in ipairs(filled) do
        values[field[1]] = {field[2], map.floor}
    end
    for i = 1, #old, 2 do
        local name, field = old[i]:sub(2), old[i + 1]
        if old[i]:sub(1, 1) == '=' then
            local version, has_value = struct.unpack('<I8B', field)
            if version > as_of then
                values[name] = {has_value == 1 and field:sub(10) or nil, version}
            else
                values[name] = {values[name] and values[name][1], version}
            end
        end
    end
    redis.call('UNLINK', at)
    for name, value in pairs(values) do
        put_field(at, fresh, name, value[1], value[2])
    end
    if fresh.bytes > most then
        return stored(4, remove(group, key))
    end
    stored(1, save_fields(group, key, at, fresh))
end

local SET, ADD, REPLACE, COMPARE = 0, 1, 2, 3

local function set(group, key, mode, flags, as_of, seconds, format, bytes)
    local version, old_format, old = live(group, key)
    local has_changed = changed(group, key) > as_of
    local is_same = version and old_format == format and old == bytes
    if mode == ADD and version then
        if has_changed and bit.band(flags, 2) ~= 0 and not is_same then
            return stored(0, remove(group, key))
        end
        return stored(2, clock)
    elseif mode == REPLACE and not version then
        return stored(2, clock)
    elseif has_changed and (mode == ADD or mode == COMPARE) then
        return stored(0, clock)
    elseif has_changed and not (version and (bit.band(flags, 1) ~= 0 or is_same)) then
        return stored(0, remove(group, key))
    elseif #bytes > most then
        return stored(4, remove(group, key))
    end
    stored(1, put(group, key, format, bytes, seconds))
end

local function increment(group, key, by)
    local version, format, bytes = live(group, key)
    if not version then
        return result(0, clock)
    end
    local number = format == INTEGER and #bytes < 16 and bytes:match('^%-?%d+$') and tonumber(bytes)
    local sum = number and math.max(number + by, 0)
    if not sum or math.abs(sum) >= EXACT then
        return result(2, clock)
    end
    local tick = tick_of(group, key)
    redis.call('SET', place(group, key), struct.pack('<I8B', tick, INTEGER) .. text(sum), 'KEEPTTL')
    result(1, tick)
    say(struct.pack('<i8', sum))
end

local function flush_group(group)
    local count = 0
    for _ in pairs(flushed) do
        count = count + 1
    end
    if count >= GROUPS and not flushed[group] then
        return begin(clock + 1)
    end
    clock = clock + 1
    flushed[group] = clock
    redis.call('HSET', state, 'F', cmsgpack.pack(flushed))
end

-- Operations.

local at = 1
local function read(form)
    local values = {struct.unpack('<' .. form, frame, at)}
    at = table.remove(values)
    return unpack(values)
end

local operations = {
    [1] = function()
        local version = read('B')
        result(version == 3 and 1 or 0, clock)
        say(struct.pack('<I4', most))
    end,
    [2] = function()
        local group, key = read('Bc0I2c0')
        local version, format, bytes = live(group, key)
        counts.lookups = counts.lookups + 1
        if not version then
            result(0, clock)
        elseif length + #bytes > room then
            result(3, version)
        else
            counts.hits = counts.hits + 1
            result(1, version)
            say(struct.pack('<BI4', format, #bytes))
            say(bytes)
        end
    end,
    [3] = function()
        local mode, flags, as_of, seconds, format = read('BBI8I4B')
        local group, key, bytes = read('Bc0I2c0I4c0')
        set(group, key, mode, flags, as_of, seconds, format, bytes)
    end,
    [4] = function()
        local as_of, group, key = read('I8Bc0I2c0')
        local was_there = live(group, key) and 1 or 0
        local is_only = changed(group, key) <= as_of and 2 or 0
        counts.deleted = counts.deleted + 1
        result(was_there + is_only, remove(group, key))
    end,
    [5] = function()
        local by, group, key = read('i8Bc0I2c0')
        increment(group, key, by)
    end,
    [6] = function()
        begin(clock + 1)
        counts.flushes = counts.flushes + 1
        result(1, clock)
    end,
    [7] = function()
        flush_group(read('Bc0'))
        counts.flushes = counts.flushes + 1
        result(1, clock)
    end,
    [8] = function()
        local as_of, group, key, count = read('I8Bc0I2c0I4')
        local filled = {}
        for i = 1, count do
            filled[i] = {read('I2c0I4c0')}
        end
        fill(group, key, as_of, filled)
    end,
    [9] = function()
        local group, key, count = read('Bc0I2c0I4')
        local changes = {}
        for i = 1, count do
            local kind, as_of, name = read('BI8I2c0')
            changes[i] = {kind, as_of, name, kind ~= 2 and read('I4c0') or nil}
        end
        change_fields(group, key, changes)
    end,
    [10] = function()
        local count, is_same = read('I4'), true
        for i = 1, count do
            local as_of, had, group, key = read('I8BBc0I2c0')
            local tick = changed(group, key)
            is_same = is_same and (tick < as_of or (tick == as_of and (had == 0 or live(group, key) ~= nil)))
        end
        result(is_same and 1 or 0, clock)
    end,
}

local function follow()
    local before = clock
    while at <= #frame do
        operations[read('B')]()
    end
    if clock == before then
        return
    end
    if redis.call('HLEN', state) > CHANGES then
        -- All keys that are not known have changed until now, at the latest.
        floor = clock
        redis.call('UNLINK', state)
        redis.call('HSET', state, 'r', run, 'g', generation, 'f', text(floor), 'F', cmsgpack.pack(flushed))
    end
    redis.call('HSET', state, 'c', text(clock))
end

load()
if generation ~= known then
    return redis.error_reply('GENERATION ' .. generation)
end
local is_done, why = pcall(follow)
if not is_done then
    -- Half of it is done: nothing of it is seen again.
    redis.call('UNLINK', state)
    return redis.error_reply('FAILED ' .. tostring(type(why) == 'table' and why.err or why))
end
return {table.concat(answer), generation, counts.lookups, counts.hits, counts.stored, counts.refused, counts.deleted,
    counts.flushes, redis.call('DBSIZE')}
