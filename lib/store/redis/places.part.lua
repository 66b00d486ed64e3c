-- Places. Fields of PLACES: `total <row>`, how many places all processes hold for a caller; `held
-- <process> <row>`, how many one process holds, and in which generation it has stated that;
-- `process <process>`, its lease; `callers <quota>`, how many callers have places.
--
-- Reads what a call needs of them, and returns an object with the functions `clean`, `state` and
-- `write`. Its functions are made only for calls that are about places, because each costs as much
-- as reading a field.
--
-- lease: the `process`, the `number` of its call, its `generation`, `isComplete` (1 or 0), and its
--   `holdings`: for each caller its `row`, and how many places the process `held` before the call
-- cleaningText: the field `cleaning` of WINDOWS
local function openPlaces (lease, cleaningText, now)
  -- A lease: the number of the process's latest call, when the lease ends, the generation in which
  -- the process has stated all that it holds, and how many places it holds.
  local PROCESS <const> = 'dddd'
  -- What a process holds for a caller: how many places, and the generation.
  local HOLDING <const> = 'dd'
  -- The cleaning removes what processes hold without a lease, in passes over PLACES: the cursor of
  -- the pass that is under way; when the next one begins, because the first lease may end; and the
  -- same for the one after the pass that is under way.
  local CLEANING <const> = 'ddd'

  local self = {}
  local process = nil
  local cleaning = { cursor = NO_PASS, nextAt = now + LEASE, followingAt = NEVER }
  if cleaningText then
    cleaning.cursor, cleaning.nextAt, cleaning.followingAt = struct.unpack(CLEANING, cleaningText)
  end

  local function readProcess (text)
    local number, ends, generation, held = struct.unpack(PROCESS, text)
    return { number = number, ends = ends, generation = generation, held = held }
  end

  -- Reads the lease, and for each holding the total of the caller and what the process holds.
  local function read ()
    local fields = { 'process ' .. lease.process }
    local heldPrefix = 'held ' .. lease.process .. ' '
    for position, holding in ipairs(lease.holdings) do
      fields[2 * position] = 'total ' .. holding.row
      fields[2 * position + 1] = heldPrefix .. holding.row
    end
    local found = redis.call('HMGET', PLACES, unpack(fields))
    process = found[1] and readProcess(found[1])
    self.byRow = {}
    for position, holding in ipairs(lease.holdings) do
      local total, held = found[2 * position], found[2 * position + 1]
      local place = {
        totalField = fields[2 * position],
        heldField = fields[2 * position + 1],
        totalBefore = tonumber(total or 0),
        heldBefore = 0,
        generation = lease.generation,
        held = 0,
        total = 0
      }
      if held then
        place.heldBefore, place.generation = struct.unpack(HOLDING, held)
      end
      self.byRow[holding.row] = place
    end
  end

  -- Fields that change, with their values; those that go; and by quota, how many more callers have
  -- places.
  local written = {}
  local removed = {}
  local moreCallers = {}

  local function set (field, value)
    local size = #written
    written[size + 1] = field
    written[size + 2] = value
  end

  -- A process that holds nothing has no lease.
  local function setProcess (name, its)
    if its.held > 0 then
      set('process ' .. name, struct.pack(PROCESS, its.number, its.ends, its.generation, its.held))
    else
      removed[#removed + 1] = 'process ' .. name
    end
  end

  -- A row is named `<quota> <caller>`.
  local function setTotal (row, field, before, total)
    if total == before then return end
    if total > 0 then
      set(field, total)
    else
      removed[#removed + 1] = field
    end
    if total > 0 and before > 0 then return end
    local quota = string.sub(row, 1, string.find(row, ' ', 1, true) - 1)
    moreCallers[quota] = (moreCallers[quota] or 0) + (total > 0 and 1 or -1)
  end

  local function writeChanges ()
    if #written > 0 then redis.call('HSET', PLACES, unpack(written)) end
    if #removed > 0 then redis.call('HDEL', PLACES, unpack(removed)) end
    for quota, more in pairs(moreCallers) do
      if more ~= 0 and redis.call('HINCRBY', PLACES, 'callers ' .. quota, more) == 0 then
        redis.call('HDEL', PLACES, 'callers ' .. quota)
      end
    end
    written, removed, moreCallers = {}, {}, {}
  end

  -- Whether places may be counted in the totals that nobody holds any more.
  function self.isCleaningDue ()
    return cleaning.cursor ~= NO_PASS or now >= cleaning.nextAt
  end

  -- Looks at a page of PLACES. What is held without a lease, or was stated in an earlier generation
  -- than the one in which its process has stated all, is taken from the totals.
  local function cleanPage ()
    local processes = {}
    local function processNamed (name)
      if processes[name] == nil then
        local text = redis.call('HGET', PLACES, 'process ' .. name)
        processes[name] = text and readProcess(text)
      end
      return processes[name]
    end

    if cleaning.cursor == NO_PASS then
      cleaning.cursor = 0
      cleaning.followingAt = now + LEASE
    end
    local page = redis.call('HSCAN', PLACES, cleaning.cursor, 'COUNT', PAGE)
    local less = {}
    for index = 1, #page[2], 2 do
      local field = page[2][index]
      local kind, name, row = string.match(field, '^(%l+) ([^ ]+) ?(.*)$')
      local owner = (kind == 'process' or kind == 'held') and processNamed(name)
      local isAlive = owner and now < owner.ends
      if kind == 'process' and isAlive then
        cleaning.followingAt = math.min(cleaning.followingAt, owner.ends)
      elseif kind == 'process' and owner.held <= 0 then
        removed[#removed + 1] = field
      elseif kind == 'held' then
        local held, generation = struct.unpack(HOLDING, page[2][index + 1])
        if not isAlive or generation < owner.generation then
          removed[#removed + 1] = field
          less[row] = (less[row] or 0) + held
          -- A process that has ended can come back while others of its rows are left.
          if owner then
            owner.held = owner.held - held
            owner.isChanged = true
          end
        end
      end
    end
    cleaning.cursor = tonumber(page[1])
    if cleaning.cursor == 0 then
      cleaning.cursor = NO_PASS
      cleaning.nextAt = cleaning.followingAt
    end

    for name, its in pairs(processes) do
      if its and its.isChanged then setProcess(name, its) end
    end
    for row, held in pairs(less) do
      local total = tonumber(redis.call('HGET', PLACES, 'total ' .. row) or 0)
      setTotal(row, 'total ' .. row, total, math.max(0, total - held))
    end
    writeChanges()
  end

  -- Cleans a page if that is due.
  function self.clean ()
    if self.isCleaningDue() then cleanPage() end
  end

  -- Cleans a page if that is due. Then states what the process holds: it replaces what was known,
  -- and the totals change by the difference.
  function self.state ()
    if self.isCleaningDue() then
      cleanPage()
      read()
    end
    self.latestNumber = process and now < process.ends and process.number or 0
    process = process or { generation = lease.generation, held = 0 }
    process.number = lease.number
    process.ends = now + LEASE
    for _, holding in ipairs(lease.holdings) do
      local place = self.byRow[holding.row]
      local more = holding.held - place.heldBefore
      place.held = holding.held
      place.total = place.totalBefore + more
      process.held = process.held + more
    end
    if lease.isComplete == 1 and process.generation < lease.generation then
      process.generation = lease.generation
      if cleaning.cursor == NO_PASS then
        cleaning.nextAt = now
      else
        cleaning.followingAt = now
      end
    end
  end

  -- Returns the caller's total.
  function self.take (row, granted)
    local place = self.byRow[row]
    place.held = place.held + granted
    place.total = place.total + granted
    process.held = process.held + granted
    return place.total
  end

  -- Writes what has changed, and returns the new text of the cleaning.
  function self.write ()
    for row, place in pairs(self.byRow) do
      local isChanged = place.held ~= place.heldBefore or place.generation ~= lease.generation
      if place.held > 0 and isChanged then
        set(place.heldField, struct.pack(HOLDING, place.held, lease.generation))
      elseif place.held == 0 and place.heldBefore > 0 then
        removed[#removed + 1] = place.heldField
      end
      setTotal(row, place.totalField, place.totalBefore, place.total)
    end
    setProcess(lease.process, process)
    writeChanges()
    redis.call('PEXPIRE', PLACES, LEASE + SWEEP_INTERVAL)
  end

  function self.cleaningText ()
    return struct.pack(CLEANING, cleaning.cursor, cleaning.nextAt, cleaning.followingAt)
  end

  read()
  if process and lease.number <= process.number then
    error('LATE a later call of this process has stated what it holds', 0)
  end
  return self
end
