-- The scripts run in a Redis server (Lua 5.1). lib/store/redis/script.ts writes the constants above them.
std = 'lua51'
max_line_length = 150
read_globals = { 'redis', 'struct', 'KEYS', 'ARGV', 'WINDOW', 'CAP', 'COST', 'HAS_CLOCK', 'HAS_LIMITS', 'HAS_REPEATS' }
