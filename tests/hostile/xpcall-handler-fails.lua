-- Errors in the error handler, over and over.
-- expect: timeout
while true do
  local ok = xpcall(error, error, "again")
  assert(not ok)
end
