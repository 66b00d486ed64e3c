-- What the scripts have in common: the counters of a quota in a shard are a hash with a row for each caller and a state. The set of the
-- keys of these hashes is the shard's register. A script creates its variables and functions each time it runs, so the build puts values
-- marked <const> where their names are, and these parts where they are included.
local call, pack, read, sub = redis.call, struct.pack, struct.unpack, string.sub

-- The byte 255 does not occur in UTF-8, so no caller has the name of this field. It holds the version of the layout, the offset of the
-- clock, and the latest time known; the time of the latest sweep, when the key expires, the length of the window (0: requests in flight;
-- negative: windows with an end), the number of sweeps, the earliest last request that the check of the rows has found, and the cursor of
-- that check; and the overflow counter's count, window and nonce. It is longer than 64 bytes, so that the server keeps a hash table.
local STATE <const>, STATE_FORMAT <const>, STATE_LENGTH <const>, LAYOUT_VERSION <const> = '\255', 'dddddddddddd', 96, 3
-- A row holds the count, when the window began or, if it has an end, ends, its nonce, and the time of the last request. The time and the
-- nonce tell a window from one that was lost or forgotten. It is returned as its age with the nonce and two flags.
local ROW <const>, LAST_SEEN_POSITION <const>, NONCES <const>, TIMES <const>, FLAGS <const> = 'dddd', 25, 65536, 4294967296, 4
-- For requests in flight, a row has a part for each process, the latest first: the name, how many places it holds, and the number and
-- the time of the call that wrote it. It counts until its lease ends.
local PART <const>, PART_LENGTH <const>, LEASE <const> = 'c16ddd', 40, 30000
local SWEEP_INTERVAL <const>, RETENTION_AFTER_WINDOW <const>, ALL_CHECKED <const>, NEVER <const> = 60000, 60000, -1, -1e300
-- Clients read an integer of more than 52 bits inexactly, but not a text.
local LARGEST_INTEGER <const>, LARGEST_COUNT <const> = 4503599627370496, 9007199254740991

local function serverTime ()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
