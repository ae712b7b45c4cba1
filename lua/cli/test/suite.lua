-- What a test file defines: nested blocks of `describe`, with tests and hooks. Definitions are
-- accepted while the file is loaded, and refused later: a test inside a test would never run.

local expect = require "orrery.test.expect"

local function new_block(name, parent)
  local block = { name = name, parent = parent, items = {} }
  for _, hook in ipairs { "before_each", "after_each", "before_all", "after_all" } do
    block[hook] = {}
  end
  return block
end

local function full_name(block, name)
  while block and block.name do
    name = block.name .. " " .. name
    block = block.parent
  end
  return name
end

local function check_type(what, value, kind)
  if type(value) ~= kind then
    error(string.format("%s, got %s", what, type(value)), 3)
  end
end

---Creates a suite; its functions are the test file's globals.
local function new()
  local root = new_block()
  local block, open = root, true

  local function check_open(what)
    if not open then
      error(what .. ": tests are defined while the file is loaded, not while they run", 3)
    end
  end

  local globals = {}
  local mark = {} -- of the definition that begins
  local around = {} -- of the blocks around it
  local picked = false -- some definition has `only`

  -- Returns the marks of the definition that begins: its own, and those around it.
  local function take_marks()
    local own = { skipped = mark.skipped or around.skipped, picked = mark.picked or around.picked }
    mark = {}
    return own
  end

  local function describe(name, fn)
    check_open "describe"
    local outer, own = around, take_marks()
    check_type("describe: expected a name", name, "string")
    check_type("describe '" .. name .. "': expected a function", fn, "function")
    local inner = new_block(name, block)
    block.items[#block.items + 1] = inner
    block, around = inner, own
    fn()
    block, around = inner.parent, outer
  end

  -- it(name, [options,] fn); without a function the test is pending.
  local function it(name, options, fn)
    check_open "it"
    local own = take_marks()
    check_type("it: expected a sentence", name, "string")
    if fn == nil and type(options) ~= "table" then
      options, fn = {}, options
    end
    if fn ~= nil then
      check_type("it '" .. name .. "': expected a function", fn, "function")
    end
    for key in pairs(options) do
      if key ~= "leaks" and key ~= "errors" and key ~= "timeout" then
        error(string.format("it '%s': unknown option '%s'; expected leaks, errors or timeout", name, tostring(key)), 2)
      end
    end
    local timeout = options.timeout
    if timeout ~= nil and not (type(timeout) == "number" and timeout >= 0 and timeout < math.huge) then
      local message = "it '%s': option timeout: expected milliseconds, 0 for none, got %s"
      error(string.format(message, name, tostring(timeout)), 2)
    end
    block.items[#block.items + 1] =
      { test = true, name = name, full_name = full_name(block, name), fn = fn, options = options, block = block,
        place = expect.place(), skipped = own.skipped, picked = own.picked }
  end

  -- Returns `define` as a value that can be called, with the fields skip and only. They define the
  -- same, and mark every test in it. Tail calls, because errors name the caller.
  local function with_marks(define)
    return setmetatable({
      skip = function(...)
        mark.skipped = true
        return define(...)
      end,
      only = function(...)
        mark.picked, picked = true, true
        return define(...)
      end,
    }, {
      __call = function(_, ...)
        return define(...)
      end,
    })
  end

  globals.describe, globals.it = with_marks(describe), with_marks(it)

  function globals.pending(name)
    check_open "pending"
    check_type("pending: expected a sentence", name, "string")
    globals.it(name)
  end

  for _, hook in ipairs { "before_each", "after_each", "before_all", "after_all" } do
    globals[hook] = function(fn)
      check_open(hook)
      check_type(hook .. ": expected a function", fn, "function")
      table.insert(block[hook], fn)
    end
  end

  globals.context, globals.test = globals.describe, globals.it
  globals.expect, globals.assert = expect.expect, expect.assert

  return {
    root = root,
    globals = globals,
    close = function() open = false end,
    is_picked = function() return picked end,
  }
end

-- A separate random generator, so that the order of tests depends on the seed only.
local function generator(seed)
  local state = seed ~ 0x2545f4914f6cdd1d
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n + 1
  end
end

-- Shuffles a list in place.
local function shuffle(list, random)
  for i = #list, 2, -1 do
    local j = random(i)
    list[i], list[j] = list[j], list[i]
  end
end

---Returns the tests of a suite that `wanted` accepts, in order; blocks stay together. With a seed,
---the order is random.
local function order(root, wanted, seed)
  local random = seed and generator(seed)
  local tests = {}
  local function walk(block)
    local items = table.move(block.items, 1, #block.items, 1, {})
    if random then
      shuffle(items, random)
    end
    for _, item in ipairs(items) do
      if not item.test then
        walk(item)
      elseif wanted(item) then
        tests[#tests + 1] = item
      end
    end
  end
  walk(root)
  return tests
end

return { new = new, order = order, generator = generator, shuffle = shuffle }
