"""The Lua scripts that run inside Redis: each call of a view is one of them, so each is atomic.

``KEYS[1]`` is the partition's meta, ``ARGV[1]`` the prefix of all its keys. The other keys consist of the prefix and
the token, so all share the hash tag. Numbers are passed as text, because Lua's are doubles. ``unpack`` fails above
8,000 values.
"""

from __future__ import annotations

from hashlib import sha1

from msgspec.structs import force_setattr

from seekpoint.schemas.frozen_struct import FrozenStruct


class Script(FrozenStruct, frozen=True):
    """A script and its name in Redis."""

    text: str
    sha: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "sha", sha1(self.text.encode(), usedforsecurity=False).hexdigest())


_ALIVE = r"""
local base = ARGV[1]
local meta = redis.call('HMGET', KEYS[1], 'format', 'token', 'applied', 'topic_id', 'leader_epoch', 'fold',
  'partitions', 'check', 'open')
local at = base .. (meta[2] or '') .. ':'
local function stamp(applied, epoch, open)
  local parts = {meta[2], applied, meta[4], epoch, meta[6], meta[7], open}
  for n = 1, 7 do parts[n] = parts[n] or '' end
  return redis.sha1hex(table.concat(parts, '\0'))
end
-- A view that lost one of its indexes (by eviction, by a person) is not valid: processes would be missing from it.
local size = redis.call('HLEN', at .. 'heads')
local whole = tonumber(meta[1] or '') and meta[2] and size == redis.call('ZCARD', at .. 'offsets') + 1
  and size == redis.call('ZCARD', at .. 'names') + 1 and redis.call('ZCARD', at .. 'open') == tonumber(meta[9] or '')
  and redis.call('HLEN', at .. 'summaries') == size - 1 and meta[8] == stamp(meta[3], meta[5], meta[9])
local function advance(applied, epoch)
  local open = tostring(redis.call('ZCARD', at .. 'open'))
  redis.call('HSET', KEYS[1], 'open', open, 'check', stamp(applied, epoch, open))
  if applied then redis.call('HSET', KEYS[1], 'applied', applied, 'leader_epoch', epoch) end
end
"""

_CHANGE = r"""
local function many(command, key, list)
  for first = 1, #list, 4000 do
    redis.call(command, key, unpack(list, first, math.min(first + 3999, #list)))
  end
end
-- view_rows.py computes the difference of a row's sum: Lua's numbers are exact up to 2^53.
local modulus = 4503599627370496
local function change(packed)
  -- Redis checks for a full memory only at a script's first write, and only if that write takes memory: this one.
  redis.call('HSET', KEYS[1], 'format', meta[1])
  local heads, checks, offsets, names, opened, closed, summaries = {}, {}, {}, {}, {}, {}, {}
  for _, row in ipairs(cmsgpack.unpack(packed)) do
    local key, whole, mail = row[1], row[4], row[8]
    local context, conversation = at .. 'c:' .. key, at .. 'm:' .. key
    local sum, mails = tonumber(row[9]), row[11]
    if whole then
      redis.call('UNLINK', context, conversation)
      names[#names + 1] = '0'
      names[#names + 1] = key
    else
      local old, mail_before = string.match(redis.call('HGET', at .. 'checks', key) or '', ':(%d+):(%x*)')
      sum = (sum + tonumber(old or 0)) % modulus
      mails = mails or mail_before or ''
    end
    many('HSET', context, row[5])
    many('HDEL', context, row[6])
    many('RPUSH', conversation, row[7])
    if mail == '' then
      redis.call('HDEL', at .. 'mails', key)
    elseif mail then
      redis.call('HSET', at .. 'mails', key, mail)
    end
    heads[#heads + 1] = key
    heads[#heads + 1] = row[2]
    checks[#checks + 1] = key
    checks[#checks + 1] = row[10] .. ':' .. string.format('%.0f', sum) .. ':' .. mails
    offsets[#offsets + 1] = row[3]
    offsets[#offsets + 1] = key
    summaries[#summaries + 1] = key
    summaries[#summaries + 1] = row[13]
    if row[12] then
      opened[#opened + 1] = '0'
      opened[#opened + 1] = key
    else
      closed[#closed + 1] = key
    end
  end
  many('HSET', at .. 'heads', heads)
  many('HSET', at .. 'checks', checks)
  many('HSET', at .. 'summaries', summaries)
  many('ZADD', at .. 'offsets', offsets)
  many('ZADD', at .. 'names', names)
  many('ZADD', at .. 'open', opened)
  many('ZREM', at .. 'open', closed)
end
"""

META = Script(_ALIVE + "if not whole then return false end return meta")

INSTALL = Script(r"""
local base, token = ARGV[1], ARGV[2]
local old = redis.call('HGET', KEYS[1], 'token')
if old then redis.call('SADD', base .. 'old', old) end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'format', ARGV[3], 'token', token, 'topic_id', ARGV[4], 'leader_epoch', '-1',
  'partitions', ARGV[5], 'fold', ARGV[6], 'open', '0', 'check',
  redis.sha1hex(table.concat({token, '', ARGV[4], '-1', ARGV[6], ARGV[5], '0'}, '\0')))
redis.call('HSET', base .. token .. ':heads', '\0', '')
return 1
""")

# applied + 1 = position is compared as text: the caller sends position - 1.
WRITE = Script(
    _ALIVE
    + _CHANGE
    + r"""
if not whole or meta[2] ~= ARGV[2] or meta[3] ~= ARGV[3] then return false end
change(ARGV[6])
advance(ARGV[4], ARGV[5])
return redis.call('SCARD', base .. 'old')
"""
)

PUT = Script(
    _ALIVE
    + _CHANGE
    + r"""
if not whole or meta[2] ~= ARGV[2] or meta[3] then return false end
change(ARGV[3])
advance(meta[3], meta[5])
many('HSET', at .. 'pointers', cmsgpack.unpack(ARGV[4]))
return redis.call('SCARD', base .. 'old')
"""
)

READY = Script(
    _ALIVE
    + r"""
if not whole or meta[2] ~= ARGV[2] or (meta[3] and meta[3] ~= ARGV[3]) then return false end
if ARGV[5] ~= '' and size ~= tonumber(ARGV[5]) + 1 then return false end
advance(ARGV[3], ARGV[4])
return redis.call('SCARD', base .. 'old')
"""
)

POINT = Script(
    _ALIVE
    + _CHANGE
    + r"""
if not whole or meta[2] ~= ARGV[2] then return false end
many('HSET', at .. 'pointers', cmsgpack.unpack(ARGV[3]))
return redis.call('SCARD', base .. 'old')
"""
)

_PROCESS = r"""
local function process(key)
  -- The key NUL is the mark of an empty view, and no process: a record of the journal may have it all the same.
  local head = key ~= '\0' and redis.call('HGET', at .. 'heads', key)
  if not head then return false end
  return {head, redis.call('HGET', at .. 'mails', key), redis.call('HGETALL', at .. 'c:' .. key),
    redis.call('LRANGE', at .. 'm:' .. key, 0, -1), redis.call('HGET', at .. 'checks', key),
    redis.call('ZSCORE', at .. 'offsets', key)}
end
"""

# Returns as many of the keys as fit into ARGV[4] bytes, at least one. The caller asks again for the rest.
LOAD = Script(
    _ALIVE
    + _PROCESS
    + r"""
if not whole or meta[2] ~= ARGV[2] then return false end
local found, bytes, bytes_max = {}, 0, tonumber(ARGV[4])
for _, key in ipairs(cmsgpack.unpack(ARGV[3])) do
  if bytes > bytes_max then break end
  local one = process(key)
  found[#found + 1] = one
  if one then
    for _, part in ipairs(one[3]) do bytes = bytes + #part end
    for _, part in ipairs(one[4]) do bytes = bytes + #part end
  end
end
return {meta[3], found}
"""
)

LOOKUP = Script(
    _ALIVE
    + _PROCESS
    + r"""
if not whole then return false end
local one = process(ARGV[2])
return {meta, one, one and redis.call('HGET', at .. 'pointers', ARGV[2])}
"""
)

OFFSETS = Script(
    _ALIVE
    + r"""
if not whole or meta[2] ~= ARGV[2] or (ARGV[4] ~= '' and meta[3] ~= ARGV[4]) then return false end
local page = {'+inf', 'WITHSCORES', 'LIMIT', ARGV[5], ARGV[6]}
return {meta[3], redis.call('ZRANGEBYSCORE', at .. 'offsets', ARGV[3], unpack(page))}
"""
)

# In a JSON text inside the head the quotes are escaped, so only the head's own members match.
FINISHED = Script(
    _ALIVE
    + r"""
if not whole or meta[2] ~= ARGV[2] then return false end
local page = redis.call('ZRANGEBYSCORE', at .. 'offsets', ARGV[3], '(' .. ARGV[4], 'WITHSCORES', 'LIMIT', '0', ARGV[5])
local found = {}
for one = 1, #page, 2 do
  local head = redis.call('HGET', at .. 'heads', page[one])
  if head and string.find(head, '"finished":true', 1, true) and not string.find(head, '"dropped":true', 1, true) then
    found[#found + 1] = page[one]
  end
end
return {found, #page == 2 * tonumber(ARGV[5]) and page[#page] or ''}
"""
)

OFFSET = Script(
    _ALIVE
    + r"""
if not whole then return false end
return {meta, redis.call('ZSCORE', at .. 'offsets', ARGV[2])}
"""
)

_LISTED = r"""
local function listed(keys)
  if #keys == 0 then return {meta, keys, {}} end
  return {meta, keys, redis.call('HMGET', at .. 'summaries', unpack(keys))}
end
"""

PAGE = Script(
    _ALIVE
    + _LISTED
    + r"""
if not whole then return false end
return listed(redis.call('ZRANGEBYLEX', at .. ARGV[5], ARGV[2], ARGV[3], 'LIMIT', '0', ARGV[4]))
"""
)

NEWEST = Script(
    _ALIVE
    + _LISTED
    + r"""
if not whole then return false end
return listed(redis.call('ZREVRANGEBYSCORE', at .. 'offsets', ARGV[2], '-inf', 'LIMIT', '0', ARGV[3]))
"""
)

# Removes a bounded part of former views; returns how many former views are left.
SWEEP = Script(r"""
local base = ARGV[1]
local token = redis.call('SRANDMEMBER', base .. 'old')
if not token then return 0 end
local at = base .. token .. ':'
local keys = redis.call('HRANDFIELD', at .. 'heads', ARGV[2])
for _, key in ipairs(keys) do
  redis.call('UNLINK', at .. 'c:' .. key, at .. 'm:' .. key)
end
if #keys > 0 then redis.call('HDEL', at .. 'heads', unpack(keys)) end
if redis.call('EXISTS', at .. 'heads') == 0 then
  redis.call('UNLINK', at .. 'offsets', at .. 'names', at .. 'open', at .. 'mails', at .. 'pointers', at .. 'checks',
    at .. 'summaries')
  redis.call('SREM', base .. 'old', token)
end
return redis.call('SCARD', base .. 'old')
""")
