-- What the scripts have in common: the counters of a quota in a shard are a hash with a row for each caller and a state. The set of the
-- keys of these hashes is the shard's register. A script creates its variables and functions each time it runs, which takes as long as a
-- decision. So the build puts values marked <const> where their names are, and these parts where they are included, instead of functions.
local call, pack, read, sub = redis.call, struct.pack, struct.unpack, string.sub

-- The byte 255 does not occur in UTF-8, so no caller has the name of this field. It holds the version of the layout; the offset of the
-- clock and the latest time known; the time of the latest sweep; the length of the window (0: requests in flight; negative: windows with
-- an end); when the key expires; the number of sweeps; the overflow counter's count, window and nonce; the earliest last request that the
-- check of the rows has found, and the cursor of that check. It is longer than 64 bytes, so that the server keeps a hash table.
local STATE <const> = '\255'
local LAYOUT_VERSION <const> = '1'
local STATE_FORMAT <const> = 'ddddddddddd'
-- A row holds the count, the window's start, or its end where it has one, the time of the last request and the nonce of the window.
local ROW <const> = 'dddd'
local LAST_SEEN_POSITION <const> = 17
-- For requests in flight it has a part for each process: its name, how many places it holds, when its lease ends, and the number of the
-- call that wrote it.
local NAME_LENGTH <const> = 16
local PART <const> = 'ddd'
local PART_LENGTH <const> = 40
local LEASE <const> = 30000
local SWEEP_INTERVAL <const> = 60000
local RETENTION_AFTER_WINDOW <const> = 60000
local ALL_CHECKED <const> = -1
-- Clients read an integer of more than 52 bits inexactly, but not a text.
local LARGEST_INTEGER <const> = 4503599627370496
local LARGEST_COUNT <const> = 9007199254740991
local NEVER <const> = -math.huge
-- What a script knows of a quota is a list, which takes half as long to create as a table with names: the key, the time, the fields of
-- the state, and for the scripts that write whether the state has changed, whether the key's expiry must be set, and what is written.
local KEY <const> = 1
local NOW <const> = 2
local LATEST <const> = 3
local OFFSET <const> = 4
local SWEPT_AT <const> = 5
local WINDOW <const> = 6
local EXPIRY <const> = 7
local SWEEPS <const> = 8
local OVERFLOW_COUNT <const> = 9
local OVERFLOW_START <const> = 10
local OVERFLOW_NONCE <const> = 11
local OLDEST <const> = 12
local CURSOR <const> = 13
local IS_CHANGED <const> = 14
local IS_CLOCK_SET <const> = 15
local WRITTEN <const> = 16
local SIZE <const> = 17

local function serverTime ()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
