-- Part of lua/async_nvim.lua: what people read, tracebacks and the tree of tasks. The chunk's
-- arguments are the module, the class of tasks, the table of tasks without a parent, and the check
-- of arguments.

local M, Task, tops, validate = ...
local next, tostring, type = next, tostring, type
local find, format, gmatch, gsub = string.find, string.format, string.gmatch, string.gsub
local concat, sort = table.concat, table.sort
local status = coroutine.status
local traceback = debug and debug.traceback or function() return "" end

----------------------------------------------------------------------------------------- tracebacks

local function is_own(line)
  return find(line, "^orrery/async_nvim[%l_]*%.lua:") ~= nil
end

-- Whether a line is left out: it is this module's, or a C function that the module calls. `[C]: in
-- ?` is what calls message handlers.
local function is_left_out(line, caller)
  return is_own(line) or line == "[C]: in ?" or caller and find(line, "^%[C%]") and is_own(caller)
end

-- As other versions of Lua write it: "in function 'name'" whatever the name is of.
local function plain(line)
  return (gsub(line, ": in %l+ '([^']*)'", ": in function '%1'"))
end

local function add_stack(lines, task, level)
  local co = task._coroutine
  local stack = task._stack or co and status(co) ~= "dead" and traceback(co, "", level) or ""
  local thread = task._thread or co and tostring(co) or "thread"
  local all = {}
  for line in gmatch(stack, "\n\t([^\n]*)") do
    all[#all + 1] = line
  end
  for i = 1, #all do
    if not is_left_out(all[i], all[i + 1]) then
      lines[#lines + 1] = format("\n\t[%s] %s", thread, plain(all[i]))
    end
  end
end

-- The task that this one waits for, or the one whose error it has raised.
local function awaited_by(task)
  local outcome, awaited = task._outcome, task._awaited
  if not outcome then
    return task._wait and task._wait.target
  elseif awaited and awaited._outcome and outcome[1] ~= nil and outcome[1] == awaited._outcome[1] then
    return awaited
  end
end

-- The stacks of the tasks that it waits for, the innermost first, and its own.
function Task:traceback(msg, level)
  validate("level", level, "number", true)
  if msg ~= nil and type(msg) ~= "string" then
    return msg
  end
  local chain, task, seen = {}, self, {}
  while task and not seen[task] do
    seen[task] = true
    chain[#chain + 1] = task
    task = awaited_by(task)
  end
  local lines = {}
  for i = #chain, 1, -1 do
    add_stack(lines, chain[i], level or 0)
  end
  return (msg and msg .. "\n" or "") .. "stack traceback:" .. concat(lines)
end

------------------------------------------------------------------------------------------- the tree

local function children_of(task)
  local list, children = {}, task._children
  local child = children and children._behind
  while child ~= children do
    list[#list + 1] = child
    child = child._behind
  end
  return list
end

-- Adds the tasks and all below them to the lines. `first` and `rest` stand before a task's line and
-- before those of its children.
local function add_tree(lines, task, first, rest)
  lines[#lines + 1] = format("%s%s@%s [%s]", first, task.name or "", task._place, task:status())
  local children = children_of(task)
  for i = 1, #children do
    local last = i == #children
    add_tree(lines, children[i], rest .. (last and "└─ " or "├─ "), rest .. (last and "   " or "│  "))
  end
end

function M._inspect_tree()
  local list, lines = {}, {}
  for task in next, tops do
    list[#list + 1] = task
  end
  sort(list, function(a, b) return tops[a] < tops[b] end)
  for i = 1, #list do
    add_tree(lines, list[i], "", "")
  end
  return concat(lines, "\n")
end
