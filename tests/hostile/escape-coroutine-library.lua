-- The coroutine functions with arguments that are no coroutines, dead ones, and the main one.
-- expect: ok
local dead = coroutine.create(function() end)
coroutine.resume(dead)
for _, name in ipairs { "resume", "close", "status", "isyieldable" } do
  for _, junk in ipairs { 1, "x", {}, print } do
    local ok, result = pcall(coroutine[name], junk)
    assert(not ok or result == false, name)
  end
end
assert(not coroutine.resume(dead) and coroutine.status(dead) == "dead" and coroutine.close(dead))
for _, junk in ipairs { 1, "x", {} } do assert(not pcall(coroutine.create, junk) and not pcall(coroutine.wrap, junk)) end
local _, main = coroutine.running()
assert(main == false)
