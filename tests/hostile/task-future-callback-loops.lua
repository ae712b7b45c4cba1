-- A callback of a completed future that makes the next future, completes it and asks for its callback, for ever.
-- expect: any end
local async = orrery.async
local function chain()
  local future = async.future()
  future:complete(nil, 1)
  future:wait(chain)
end
while true do pcall(chain) end
