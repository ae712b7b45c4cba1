-- A callback of a completed future makes and completes the next future, for ever.
-- expect: any end
local async = orrery.async
local function chain()
  local future = async.future()
  future:complete(nil, 1)
  future:wait(chain)
end
while true do pcall(chain) end
