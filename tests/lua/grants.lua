-- Attempts of an untrusted script to reach more than its grants. tests/test_grant_scripts.c runs
-- it, with these grants:
--
--   connect   127.0.0.1, unix:@orrery-granted, inside.test, rebound.test, *.deep.test, localhost
--   listen    127.0.0.1, unix:@orrery-granted
--
-- and a resolver in which inside.test leads to 127.0.0.1, and rebound.test to special addresses.

local orrery = require("orrery")
local net, async = orrery.net, orrery.async

local function code(result, err)
  return result and "ok" or err.code
end

local listener <close> = assert(net.listen("127.0.0.1:0"))
local port = assert(listener:address():match("%d+$"))
local socket <close> = assert(net.udp("127.0.0.1:0"))

local function connect(address, options)
  local stream, err = net.connect((address:gsub("PORT", port)), options)
  if stream then
    stream:close()
  end
  return code(stream, err)
end

local function send(address)
  return code(socket:send("x", address))
end

local function listen(address, options)
  local result, err = net.listen(address, options)
  if result then
    result:close()
  end
  return code(result, err)
end

local function udp(...)
  local result, err = net.udp(...)
  if result then
    result:close()
  end
  return code(result, err)
end

-- A function, its arguments, and the answer.
local attempts = {
  -- what is granted
  { connect, "127.0.0.1:PORT", "ok" },
  { connect, "0.0.0.0:PORT", "ok" },
  { connect, "[::ffff:127.0.0.1]:PORT", "ok" },
  { connect, "inside.test:PORT", "ok" },
  { connect, "INSIDE.test.:PORT", "ok" },
  { connect, "localhost:PORT", "ok" },
  { send, "127.0.0.1:9", "ok" },
  { listen, "127.0.0.1:0", "ok" },
  { udp, "127.0.0.1:0", "ok" },
  -- other addresses, however they are written
  { connect, "127.0.0.2:PORT", "EACCES" },
  { connect, "[::ffff:127.0.0.2]:PORT", "EACCES" },
  { connect, "[::127.0.0.2]:PORT", "EACCES" },
  { connect, "[64:ff9b::127.0.0.2]:PORT", "EACCES" },
  { connect, "[2002:7f00:2::]:PORT", "EACCES" },
  { connect, "10.0.0.1:80", "EACCES" },
  { connect, "169.254.169.254:80", "EACCES" },
  { connect, "[::ffff:169.254.169.254]:80", "EACCES" },
  { connect, "100.64.0.1:80", "EACCES" },
  { connect, "8.8.8.8:53", "EACCES" },
  { connect, "[fe80::1%lo]:80", "EACCES" },
  { connect, "[fd00::1]:80", "EACCES" },
  { connect, "unix:/run/systemd/notify", "EACCES" },
  { connect, "unix:/var/run/docker.sock", "EACCES" },
  { connect, "unix:relative", "EACCES" },
  { connect, "unix:@/tmp/.X11-unix/X0", "EACCES" },
  { connect, "unix:@orrery-granted", "ECONNREFUSED" },
  -- names
  { connect, "unknown.test:80", "EACCES" },
  { connect, "deep.test:80", "EACCES" },
  { connect, "rebound.test:PORT", "EACCES" },
  { connect, "a.deep.test:80", "EACCES" }, -- leads to 10.0.0.1
  { connect, "notdeep.test:80", "EACCES" },
  { connect, "secret-data.attacker.test:80", "EACCES" },
  -- around the gate
  { connect, "127.0.0.1:PORT", { local_address = "127.0.0.1:0" }, "ok" },
  { connect, "127.0.0.1:PORT", { local_address = "127.0.0.2:0" }, "EACCES" },
  { connect, "127.0.0.1:PORT", { local_address = "0.0.0.0:0" }, "EACCES" },
  { connect, "unix:@orrery-granted", { local_address = "unix:/tmp/orrery-never" }, "EACCES" },
  { connect, "10.0.0.1:80", { real = true }, "EACCES" },
  { send, "127.0.0.2:9", "EACCES" },
  { send, "169.254.169.254:53", "EACCES" },
  { send, "255.255.255.255:9", "EACCES" },
  { send, "224.0.0.1:9", "EACCES" },
  { udp, "0.0.0.0:0", "EACCES" },
  { udp, "[::]:0", "EACCES" },
  { udp, "127.0.0.1:0", { reuse = true }, "EACCES" },
  { udp, "127.0.0.1:0", { peer = "127.0.0.1:9" }, "ok" },
  { udp, "127.0.0.1:0", { peer = "127.0.0.2:9" }, "EACCES" },
  { udp, { peer = "127.0.0.1:9" }, "ok" },
  { udp, { peer = "10.0.0.1:9" }, "EACCES" },
  { udp, { peer = "unix:/dev/log" }, "EACCES" },
  { udp, "unix:/tmp/orrery-never", "EACCES" },
  { listen, "0.0.0.0:0", "EACCES" },
  { listen, "[::]:0", "EACCES" },
  { listen, "[::1]:0", "EACCES" },
  { listen, "127.0.0.2:0", "EACCES" },
  { listen, "unix:/tmp/orrery-never", "EACCES" },
  { listen, "unix:@orrery-other", "EACCES" },
  { listen, "unix:@orrery-granted", "ok" },
  { listen, "127.0.0.1:" .. port, { reuse_port = true }, "EACCES" },
  { listen, "unknown.test:0", "EACCES" },
}

for i = 1, #attempts do
  local attempt = attempts[i]
  local expected = attempt[#attempt]
  local answer = attempt[1](attempt[2], #attempt > 3 and attempt[3] or nil)
  if answer ~= expected then
    local options = #attempt > 3 and next(attempt[3]) or ""
    error(string.format("attempt %d, %s %s: %s, expected %s", i, tostring(attempt[2]), options, answer, expected))
  end
end

-- Addresses with a mistake in them are no addresses.
for _, address in ipairs { "2130706433:80", "0x7f000001:80", "0177.0.0.1:80", "127.1:80", "127.0.0.1.:80" } do
  assert(not pcall(net.connect, address), address)
end

-- A refusal says what is missing, and how to give it.
local _, err = net.connect("10.1.2.3:80")
assert(err.message:find("--allow-net=10.1.2.3:80", 1, true), err.message)
assert(err.message:find("special (private)", 1, true), err.message)
_, err = net.listen("0.0.0.0:80")
assert(err.message:find("--allow-listen=0.0.0.0:80", 1, true), err.message)
_, err = net.lookup("unknown.test:443")
assert(err.message:find("--allow-net=unknown.test:443", 1, true), err.message)
_, err = net.listen("127.0.0.1:8080", { reuse_port = true })
assert(err.message:find("by its number", 1, true), err.message)

-- Groups.
_, err = socket:join("239.1.2.3")
assert(err.code == "EACCES" and err.message:find("--allow-listen=239.1.2.3:", 1, true), err.message)

-- Servers, with threads and without.
_, err = net.serve("0.0.0.0:0", print)
assert(err.code == "EACCES", tostring(err))
_, err = net.serve("0.0.0.0:0", "return print", { threads = 1 })
assert(err.code == "EACCES", tostring(err))
local server <close> = assert(net.serve("127.0.0.1:0", function(stream)
  stream:write("hello")
end))
local client <close> = assert(net.connect(server:address()))
assert(client:read_all() == "hello")

-- Threads of a server have the same grants.
local spy = [[
  local net = require("orrery").net
  return function(stream)
    local other, err = net.connect("127.0.0.2:9")
    stream:write(other and "reached" or err.code)
  end
]]
local threaded <close> = assert(net.serve("127.0.0.1:0", spy, { threads = 1 }))
local asking <close> = assert(net.connect(threaded:address()))
assert(asking:read_all() == "EACCES")
_, err = net.serve("127.0.0.1:0", spy, { threads = 900 })
assert(err and tostring(err):find("threads together", 1, true), tostring(err))

-- Jobs have them, too.
local job = orrery.worker.new([[
  local orrery = require("orrery")
  local _, err = orrery.net.connect("127.0.0.2:9")
  local listener <close> = assert(orrery.net.listen("127.0.0.1:0"))
  return err.code, #orrery.grants().connect
]])
local reached, count = job:call()
assert(reached == "EACCES" and count == 6, reached)

-- What is withheld stays withheld.
assert(orrery.stdin == nil and orrery.stdout == nil and net.standard == nil)
assert(async.readable == nil and async.writable == nil)
note(#attempts) -- luacheck: ignore 113
