-- Creates the `state` of a quota, which the first sweep completes.
if kind == IS_EXPECTED then
  -- A server that evicts a shard when its memory is nearly full would do so again and again. Any server can lose one, for example when it
  -- restarts.
  local NEARLY_FULL <const> = 0.9
  local memory = redis.pcall('INFO', 'memory')
  if type(memory) ~= 'string' then error('EVICTED the server may have evicted the counters, and its user cannot run INFO', 0) end
  local most, isEvicting = string.match(memory, '\nmaxmemory:(%d+)') + 0, not string.find(memory, 'policy:noeviction', 1, true)
  if isEvicting and most > 0 and string.match(memory, 'used_memory:(%d+)') / most >= NEARLY_FULL then
    error('EVICTED the server has evicted the counters, because its memory is full', 0)
  end
end
-- Rows are useless without the clock. Only a key that exists is removed, because after a first write the server would no longer refuse the
-- others when its memory is full.
if call('EXISTS', key) == 1 then call('UNLINK', key) end
state, found = pack(STATE_FORMAT, LAYOUT_VERSION, 0, NEVER, NEVER, 0, window, -1, NEVER, ALL_CHECKED, 0, NEVER, 0), {}
