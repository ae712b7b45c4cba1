-- A crawler follows links through a network of pages, politely. At most eight pages are fetched at
-- once, at most two of one host, and each host is asked at most ten times a second. A page that
-- hangs is given up after half a second; one that fails is tried again; none is visited twice.
--
--     orrery examples/crawler.lua
--     orrery --virtual examples/crawler.lua    the same in no time, and the same each time
--
-- A page and everything that is found through it is one task: it is done when its links have been
-- visited, too. So there is no queue to watch, and cancelling the crawl, with a time limit for
-- example, ends all of it.

local orrery = require "orrery"
local async, loop = orrery.async, orrery.loop

-------------------------------------------------------------------------------- a simulated network

-- Returns a number from 0 to n - 1 that depends only on the text.
local function pick(text, n)
  local hash = 5381
  for i = 1, #text do
    hash = (hash * 33 ~ text:byte(i)) & 0xffffffff
  end
  hash = hash * 2654435761 & 0xffffffff
  return (hash >> 8) % n
end

local hosts = { "mercury", "venus", "mars", "jupiter" }

local function link(text)
  return ("%s/%d"):format(hosts[pick(text .. "host", #hosts) + 1], pick(text .. "page", 14))
end

-- Returns the links of a page after a while, or raises an error.
local function get(url, attempt)
  local kind = pick(url, 12)
  async.sleep(20 + pick(url .. attempt, 180))
  if kind == 0 then
    async.sleep(1e9) -- never answers
  elseif kind == 1 then
    error("404 not found", 0)
  elseif kind <= 3 and attempt < 3 then
    error("503 try again", 0)
  end
  local links = {}
  for i = 1, 2 + pick(url, 3) do
    links[i] = link(url .. " " .. i)
  end
  return links
end

-------------------------------------------------------------------------------------------- manners

-- Returns a function that waits until `interval` after the previous caller.
local function rate_limit(interval)
  local free_at = 0
  return function()
    local now = loop.now()
    local turn = math.max(now, free_at)
    free_at = turn + interval
    async.sleep(turn - now)
  end
end

local everywhere = async.semaphore(8)
local manners = {} -- host -> its limits
for _, host in ipairs(hosts) do
  manners[host] = { permits = async.semaphore(2), wait = rate_limit(100) }
end

---------------------------------------------------------------------------------------- the crawler

local begin = loop.now()
local requests, most, under_way = 0, 0, 0

local function say(what, ...)
  print(("%6.2f s  %s"):format((loop.now() - begin) / 1000, what:format(...)))
end

-- Takes the host's permit first, then one of those for all: nobody waits for a slow host with a
-- permit that others could use.
local function fetch_politely(url, attempt)
  local manner = manners[url:match("^[^/]+")]
  return manner.permits:with(function()
    manner.wait()
    return everywhere:with(function()
      requests, under_way = requests + 1, under_way + 1
      most = math.max(most, under_way)
      local _ <close> = setmetatable({}, { __close = function() under_way = under_way - 1 end })
      return async.with_timeout(500, get, url, attempt)
    end)
  end)
end

-- Returns the links of a page; or nil and the reason.
local function fetch(url)
  for attempt = 1, 3 do
    local ok, links = pcall(fetch_politely, url, attempt)
    if ok then
      say("%-12s %d links%s", url, #links, attempt > 1 and (", attempt %d"):format(attempt) or "")
      return links
    elseif async.is_closing() then
      error(links, 0)
    elseif links ~= "503 try again" then
      say("%-12s %s", url, links)
      return nil, links
    end
  end
  return nil, "503 try again"
end

local seen, results = {}, {}

local function visit(url, depth)
  seen[url] = true
  local links, err = fetch(url)
  results[url] = err or "ok"
  for _, next_url in ipairs(depth > 0 and links or {}) do
    if not seen[next_url] then
      seen[next_url] = true -- before another task finds it
      async.run(next_url, visit, next_url, depth - 1)
    end
  end
end

local finished = pcall(async.with_timeout, 60000, visit, "mercury/0", 6)

----------------------------------------------------------------------------------------- the result

local counts, pages = {}, 0
for _, result in pairs(results) do
  counts[result] = (counts[result] or 0) + 1
  pages = pages + 1
end
local names = {}
for name in pairs(counts) do
  names[#names + 1] = name
end
table.sort(names)

print()
say("%s: %d pages, %d requests, at most %d at once", finished and "done" or "out of time", pages, requests, most)
for _, name in ipairs(names) do
  print(("%10d  %s"):format(counts[name], name))
end
