-- What the scripts have in common: the counters of a quota in a shard are a hash with a row for each caller and a state. The set of the
-- keys of these hashes is the shard's register. A script creates its variables and functions each time it runs, so the build puts values
-- marked <const> where their names are, and these parts where they are included.
local call, pack, read, sub = redis.call, struct.pack, struct.unpack, string.sub

-- The byte 255 does not occur in UTF-8, so no caller has the name of this field. It holds the version of the layout, the offset of the
-- clock, and the latest time known; the time of the latest sweep, when the key expires, the length of the window (0: requests in flight;
-- negative: windows with an end), the number of sweeps, the earliest last request that the check of the rows has found, and the cursor of
-- that check; and the overflow counter's count and window. It is longer than 64 bytes, so that the server keeps a hash table.
local STATE <const>, STATE_FORMAT <const>, LAYOUT_VERSION <const> = '\255', 'ddddddddddd', 3
local SWEPT_AT_POSITION <const>, WINDOW_POSITION <const>, SWEEPS_POSITION <const>, OVERFLOW_POSITION <const> = 25, 41, 49, 73
-- A row holds the count, the window and the time of the last request. A window is the time at which it began, or ends where it has an end,
-- and as a fraction a number of the call that opened it, which tells it from a lost one. It is returned as an integer with two flags.
local ROW <const>, LAST_SEEN_POSITION <const>, FRACTIONS <const>, FLAGS <const> = 'ddd', 17, 256, 1024
-- For requests in flight, a row has a part for each process, the latest at its end: the name, how many places it holds, and the number and
-- the time of the call that wrote it. It counts until its lease ends.
local PART <const>, PART_LENGTH <const>, LEASE <const> = 'c16ddd', 40, 30000
local SWEEP_INTERVAL <const>, RETENTION_AFTER_WINDOW <const>, ALL_CHECKED <const>, NEVER <const> = 60000, 60000, -1, -1e300
-- Clients read an integer of more than 52 bits inexactly, but not a text.
local LARGEST_INTEGER <const>, LARGEST_COUNT <const> = 4503599627370496, 9007199254740991

local function serverTime ()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
