-- error(nil), error() and errors that are booleans, threads, functions, NaN.
-- expect: ok
local async = orrery.async
for _, e in ipairs { false, 0 / 0, print, coroutine.create(print), {} } do
  local ok, err = async.pawait(async.run(error, e))
  assert(not ok and (err == e or err ~= err))
end
local ok, err = async.pawait(async.run(function() error(nil) end))
assert(not ok and (err == nil or type(err) == "string"))
assert(not pcall(error))
