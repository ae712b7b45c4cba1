-- Looks at a coroutine that was suspended between two instructions.
-- bug: a coroutine that yielded in a hook reports the line of another instruction; up to 5.4.6
-- stock: the line of a neighbouring instruction, still of the same function
-- expect: ok
local async = orrery.async
local co, stop
local first = debug.traceback():match("hostile:(%d+)") + 2
local task = async.run({ fair = true }, function()
  co = coroutine.running()
  local n = 0
  while not stop do
    n = n + 1
    n = n
      - 1
  end
end)
for _ = 1, 5 do
  async.sleep(1)
  local line = tonumber(debug.traceback(co):match("hostile:(%d+)"))
  assert(line and line >= first and line <= first + 8, line)
end
stop = true
async.await(task)
