-- A handler starts an xpcall whose handler starts an xpcall, and so on; the last one loops.
-- expect: timeout
-- uninterrupted: a message handler cannot be suspended, only ended
local function handler(n)
  n = tonumber(n) or 0
  if n > 20 then while true do end end
  return xpcall(error, handler, n + 1)
end
while true do xpcall(error, handler, 0) end
