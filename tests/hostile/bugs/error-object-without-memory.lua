-- Fills the memory, then closes a coroutine so that an error in error handling comes of it.
-- bug: Lua makes the message "error in error handling" unprotected; without memory it calls the
--   panic function, and the program ends; up to 5.4.7
-- stock: aborts, where the memory has a limit and the main thread has no protected call under way
-- expect: any end
local hold = table.pack(table.unpack({}, 1, 20000))
local rep, pcall, close, yield, error = string.rep, pcall, coroutine.close, coroutine.yield, error
local guard = setmetatable({}, {
  __close = function()
    -- one of them takes the place of the message handler
    local a, b, c, d, e, f, g, h = 1, 2, 3, 4, 5, 6, 7, 8
    error(a and b and c and d and e and f and g and h and 0)
  end,
})
local function deep(n)
  if n == 0 then yield() else deep(n - 1) end
  return n
end
local function body()
  local _ <close> = guard
  return xpcall(deep, print, 150)
end
local co = coroutine.create(body)
coroutine.resume(co)
-- need no memory any more
local messages = { "attempt to call a number value", "C stack overflow", "not enough memory" }
local i, size, unit = 0, 1 << 20, rep("x", 1024)
local function take()
  i = i + 1
  if size > 4096 then hold[i] = rep(unit, size // 1024) else hold[i] = rep("x", size) end
end
local function object() i = i + 1 hold[i] = {} end
local function name() i = i + 1 hold[i] = i .. "" end
for _ = 1, 3 do
  size = 1 << 20
  while size >= 41 do
    if not pcall(take) then i = i - 1 size = size // 2 end
  end
end
for _ = 1, 100 do pcall(object) end
for _ = 1, 100 do pcall(name) end
local ok = close(co)
hold = nil
assert(not ok and messages and body)
