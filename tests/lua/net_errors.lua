-- Errors of I/O stay what they are wherever they go: their fields, their text, and their reports.
local check = require "check"
local orrery = require "orrery"
local async, json, net, worker = orrery.async, orrery.json, orrery.net, orrery.worker
local test, equal, raises, truthy = check.test, check.equal, check.raises, check.truthy

local ADDRESS = "127.0.0.1:1" -- nobody listens there
local SENTENCE = "connect 127.0.0.1:1: Connection refused (ECONNREFUSED)"

local function refused()
  local stream, err = net.connect(ADDRESS)
  equal(stream, nil)
  return err
end

local function expect_refused(err)
  equal(type(err), "table")
  equal(err.code, "ECONNREFUSED")
  equal(err.message, "Connection refused")
  equal(err.operation, "connect")
  equal(err.address, ADDRESS)
  equal(err.written, nil)
  equal(tostring(err), SENTENCE)
end

test("an error names its code, message, operation and address", function()
  expect_refused(refused())
end)

test("assert raises the error itself", function()
  expect_refused(raises(SENTENCE, function()
    assert(net.connect(ADDRESS))
  end))
end)

test("an error of a stream names the peer", function()
  local a, b = net.pair()
  a:close()
  local bytes, err = a:read()
  equal(bytes, nil)
  equal(err.code, "ECANCELED")
  equal(tostring(err), "read: closed (ECANCELED)")
  equal(b:read(), nil)
  b:close()
end)

test("an error passes through the result of a task", function()
  local task = async.run(refused)
  expect_refused(async.await(task))
end)

test("an error that a task raises is the error of the task", function()
  local task = async.run(function()
    error(refused())
  end)
  expect_refused(raises(SENTENCE, async.await, task))
end)

test("an error passes through a channel", function()
  local channel = worker.channel()
  channel:send(refused())
  expect_refused(channel:receive())
end)

test("an error passes to a worker and back", function()
  local job = worker.new [[
    local err = ...
    return err, tostring(err), err.code
  ]]
  local err, text, code = job:call(refused())
  expect_refused(err)
  equal(text, SENTENCE)
  equal(code, "ECONNREFUSED")
end)

test("an error that a worker raises is raised here", function()
  local job = worker.new "error(...)"
  expect_refused(raises(SENTENCE, job.call, job, refused()))
end)

test("an error inside other values passes through a channel", function()
  local channel = worker.channel()
  local err = refused()
  channel:send { list = { err, err }, nested = { err = err } }
  local got = channel:receive()
  expect_refused(got.list[1])
  expect_refused(got.list[2])
  expect_refused(got.nested.err)
end)

test("JSON text of an error is an object with its fields", function()
  local fields = json.decode(json.encode(refused()))
  equal(fields.code, "ECONNREFUSED")
  equal(fields.message, "Connection refused")
  equal(fields.operation, "connect")
  equal(fields.address, ADDRESS)
  equal(getmetatable(fields), nil)
end)

test("the report of an unhandled error has its sentence, the line and the stack", function()
  local task <const> = async.run({ detached = true }, function()
    assert(net.connect(ADDRESS))
  end)
  pcall(task.pwait, task)
  local report = orrery.testing.report(task)
  truthy(report:find(SENTENCE, 1, true), report)
  truthy(report:find "net_errors%.lua:%d+: in function", report)
end)

test("scripts cannot change what errors do", function()
  local err = refused()
  equal(getmetatable(err), false)
  raises("cannot change a protected metatable", setmetatable, err, {})
end)

test("fields of other types do not break the text", function()
  local err = refused()
  err.message, err.code, err.address = {}, 7, false
  equal(tostring(err), "connect:  (7)")
end)
