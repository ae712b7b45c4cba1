-- debug.traceback with odd arguments: threads, levels out of range, messages that are tables.
-- expect: ok
if debug and debug.traceback then
  local co = coroutine.create(function() coroutine.yield() end)
  coroutine.resume(co)
  for _, level in ipairs { -1, 0, 1, 1000, math.maxinteger, math.mininteger } do
    pcall(debug.traceback, "x", level)
    pcall(debug.traceback, co, "x", level)
  end
  local t = {}
  assert(debug.traceback(t) == t)
  pcall(debug.traceback, coroutine.running(), ("x"):rep(1 << 20))
end
