-- `orrery.run`, for a Lua that has loaded Orrery as a module (src/module/) and has no loop. The
-- chunk's arguments are the module's table, a C function that drives the loop, and one that watches
-- the task for which it is driven. It returns the table.

local orrery, drive, watch = ...
local async = orrery.async
local current, run, pawait, sleep = async.current, async.run, async.pawait, async.sleep
local error, format, select, type = error, string.format, select, type
local pack, unpack = table.pack, table.unpack

local INSIDE = "orrery.run: called inside a task, where the loop is running already; "
  .. "call the function itself, or async.run it"

local function drive_or_raise(...)
  local trouble = drive(...)
  if trouble == "interrupted!" then
    error(trouble, 0)
  elseif trouble then
    error("orrery.run: " .. trouble, 3)
  end
end

local main -- the task that is being run
local exiting -- the exit status, packed; nil if the script does not exit
local exit = os and os.exit

-- The top task awaits the function as a child, so that its results or its error come back
-- unchanged.
function orrery.run(...)
  if current() then
    error(INSIDE, 2)
  elseif select("#", ...) == 0 then
    return drive_or_raise()
  end
  local fn = ...
  if type(fn) ~= "function" then
    error(format("bad argument #1 to 'run' (function expected, got %s)", type(fn)), 2)
  end
  local outcome
  drive_or_raise(function(...)
    main = run("main", ...)
    watch(main)
    outcome = pack(pawait(main))
  end, ...)
  main = nil
  if exiting then
    exit(exiting[1], true)
  end
  if not outcome[1] then
    error(outcome[2], 0)
  end
  return unpack(outcome, 2, outcome.n)
end

-- `os.exit(status, true)` in a task: the state is closed when everything has been cancelled and has
-- cleaned up. The caller waits for that, and so never continues.
if exit then
  function os.exit(status, close)
    if not (close and main and current()) then
      exit(status, close)
    end
    exiting = pack(status)
    main:close()
    sleep(1e12)
  end
end

return orrery
