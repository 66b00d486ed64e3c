-- Creates the state of a quota. `time` is as in read-state.part.lua.
if time ~= time then time = serverTime() end
quota[NOW], quota[LATEST], quota[SWEPT_AT], quota[OLDEST], quota[IS_CLOCK_SET] = time, time, time, time, true
quota[SWEEPS], quota[CURSOR], quota[OVERFLOW_COUNT], quota[OVERFLOW_START], quota[OVERFLOW_NONCE] = 0, ALL_CHECKED, 0, NEVER, 0
-- Rows are useless without the clock. Only a key that exists is removed, because after a first write the server would no longer refuse
-- the others when its memory is full.
if call('EXISTS', quota[KEY]) == 1 then call('UNLINK', quota[KEY]) end
