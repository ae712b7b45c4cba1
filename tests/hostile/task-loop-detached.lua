-- Detached tasks that loop: they have no parent, and must still be ended.
-- expect: ok
for _ = 1, 3 do
  local task = orrery.async.run({ detached = true }, function() while true do end end)
  assert(not task:pwait())
end
