-- What the scripts have in common: the counters of a quota in a shard are a hash with a row for each caller and a state. The set of the
-- keys of these hashes is the shard's register. A script creates its variables and functions each time it runs, which takes as long as a
-- decision. So the build puts values marked <const> where their names are, and these parts where they are included, instead of functions.
local call, pack, read, sub = redis.call, struct.pack, struct.unpack, string.sub

-- The byte 255 does not occur in UTF-8, so no caller has the name of this field. It holds the version of the layout; the offset of the
-- clock and the latest time known; the time of the latest sweep; the length of the window (0: requests in flight; negative: windows with
-- an end); when the key expires; the number of sweeps; the overflow counter's count, window and nonce; the earliest last request that the
-- check of the rows has found, and the cursor of that check. It is longer than 64 bytes, so that the server keeps a hash table.
local STATE <const>, STATE_FORMAT <const> = '\255', 'ddddddddddd'
local LAYOUT_VERSION <const> = '2'
-- A row holds the count, the window's start, or its end where it has one, the time of the last request and the nonce of the window.
local ROW <const>, LAST_SEEN_POSITION <const> = 'dddd', 17
-- For requests in flight it has a part for each process: its name, how many places it holds, when its lease ends, and the number of the
-- call that wrote it.
local NAME_LENGTH <const>, PART <const>, PART_LENGTH <const> = 16, 'ddd', 40
local LEASE <const>, SWEEP_INTERVAL <const>, RETENTION_AFTER_WINDOW <const> = 30000, 60000, 60000
local ALL_CHECKED <const>, NEVER <const> = -1, -math.huge
-- Clients read an integer of more than 52 bits inexactly, but not a text.
local LARGEST_INTEGER <const>, LARGEST_COUNT <const> = 4503599627370496, 9007199254740991
-- What a script knows of a quota is a list, which takes half as long to create as a table with names: the key, the time, the fields of
-- the state, and for the scripts that write whether the state has changed, whether the key's expiry must be set, and what is written.
local KEY <const>, NOW <const>, LATEST <const>, OFFSET <const>, SWEPT_AT <const>, WINDOW <const>, EXPIRY <const> = 1, 2, 3, 4, 5, 6, 7
local SWEEPS <const>, OVERFLOW_COUNT <const>, OVERFLOW_START <const>, OVERFLOW_NONCE <const> = 8, 9, 10, 11
local OLDEST <const>, CURSOR <const>, IS_CHANGED <const>, IS_CLOCK_SET <const>, WRITTEN <const>, SIZE <const> = 12, 13, 14, 15, 16, 17

local function serverTime ()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
