-- Part of lua/async_nvim.lua: the checks of arguments, lists, and futures. It needs no task.
-- Returns a table of functions.

local error, getmetatable, pcall, setmetatable, type = error, getmetatable, pcall, setmetatable, type
local format, pack, unpack = string.format, table.pack, table.unpack

local NIL_ERROR = "error(nil)"

------------------------------------------------------------------------------------------ arguments

local function is_callable(value)
  if type(value) == "function" then
    return true
  end
  local class = getmetatable(value)
  return type(class) == "table" and type(class.__call) == "function"
end

-- Errors name the caller of the function that checks.
local function validate(name, value, expected, optional)
  local ok
  if value == nil and optional then
    return
  elseif expected == "callable" then
    ok = is_callable(value)
  else
    ok = type(value) == expected
  end
  if not ok then
    error(format("%s: expected %s, got %s", name, expected, type(value)), 3)
  end
end

local function error_value(err)
  return err == nil and NIL_ERROR or err
end

---------------------------------------------------------------------------------------------- lists

-- A ring of tables, linked by the fields `_before` and `_behind`. A table is in one list at most.

local function new_list()
  local list = {}
  list._before, list._behind = list, list
  return list
end

local function append(list, item)
  local last = list._before
  item._before, item._behind = last, list
  last._behind, list._before = item, item
end

local function remove(item)
  local before, behind = item._before, item._behind
  if before then
    before._behind, behind._before = behind, before
    item._before, item._behind = nil, nil
  end
end

local function is_empty(list)
  return list._behind == list
end

local function take_first(list)
  local first = list._behind
  if first ~= list then
    remove(first)
    return first
  end
end

-------------------------------------------------------------------------------------------- futures

local Future = {}
Future.__index = Future

local function new_future()
  return setmetatable({ _callbacks = {}, _count = 0 }, Future)
end

function Future:completed()
  return self._result ~= nil
end

-- Returns true and the values, or false and the error.
function Future:result()
  local result = self._result
  if not result then
    error("Future has not completed", 2)
  elseif result[1] ~= nil then
    return false, result[1]
  end
  return true, unpack(result, 2, result.n)
end

-- Adds a callback; returns its key in the table of callbacks. Without one, the callback was called.
local function when_completed(future, callback)
  local result = future._result
  if result then
    callback(unpack(result, 1, result.n))
    return
  end
  local key = future._count + 1
  future._count = key
  future._callbacks[key] = callback
  return key
end

function Future:wait(callback)
  validate("callback", callback, "callable")
  when_completed(self, callback)
end

Future.on_complete = Future.wait

-- Calls all callbacks in order, even if one fails; returns whether one has, and the first error.
-- Allocates nothing, so that whoever waits is called even if memory has run out.
local function call_back(future)
  local callbacks, result = future._callbacks, future._result
  local failed, err = false, nil
  for key = 1, future._count do
    local callback = callbacks[key]
    callbacks[key] = nil
    if callback then -- nil if it was taken back
      local ok, problem = pcall(callback, unpack(result, 1, result.n))
      if not ok and not failed then
        failed, err = true, error_value(problem)
      end
    end
  end
  return failed, err
end

function Future:complete(...)
  if self._result then
    error("Future is already completed", 2)
  end
  local result = pack(...)
  result.n = result.n > 0 and result.n or 1
  self._result = result
  local failed, err = call_back(self)
  if failed then
    error(err, 0)
  end
end

return {
  is_callable = is_callable,
  validate = validate,
  error_value = error_value,
  new_list = new_list,
  append = append,
  remove = remove,
  is_empty = is_empty,
  take_first = take_first,
  new_future = new_future,
  when_completed = when_completed,
  call_back = call_back,
}
