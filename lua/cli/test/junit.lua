-- Writes XML as JUnit does, for continuous integration servers. The totals are at the top, so
-- everything is written at the end. XML cannot express most control characters: they are shown as
-- escapes.

local printable = require("orrery.test.text").printable

local entities = {
  ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["\n"] = "&#10;", ["\t"] = "&#9;",
}

local function attribute(text)
  return (printable(text):gsub('[&<>"\n\t]', entities))
end

local function content(text)
  return (printable(text):gsub("[&<>]", entities))
end

local function seconds(ms)
  return string.format("%.3f", (ms or 0) / 1000)
end

return function(write, options)
  local suites = {}
  local format = {}

  local function test_case(job, result)
    local head = string.format('    <testcase classname="%s" name="%s" time="%s"', attribute(job.file),
      attribute(result.name), seconds(result.ms))
    if result.status == "passed" then
      return head .. "/>\n"
    elseif result.status == "pending" or result.status == "skipped" then
      return head .. ">\n      <skipped/>\n    </testcase>\n"
    end
    return string.format('%s>\n      <failure message="%s">%s</failure>\n    </testcase>\n', head,
      attribute(result.text:match "^[^\n]*"), content(result.text))
  end

  function format.file(job)
    local cases, counts = {}, { passed = 0, failed = 0, pending = 0, skipped = 0 }
    local results = table.move(job.results, 1, #job.results, 1, {})
    if job.broken or job.ended then
      results[#results + 1] = { name = job.file, status = "failed", ms = 0, text = job.broken or job.ended }
    end
    for i, result in ipairs(results) do
      cases[i] = test_case(job, result)
      counts[result.status] = counts[result.status] + 1
    end
    local output = content(table.concat(job.output))
    suites[#suites + 1] = string.format(
      '  <testsuite name="%s" tests="%d" failures="%d" errors="0" skipped="%d" time="%s">\n%s%s  </testsuite>\n',
      attribute(job.file), #results, counts.failed, counts.pending + counts.skipped, seconds(job.ms), table.concat(cases),
      output ~= "" and "    <system-out>" .. output .. "</system-out>\n" or "")
  end

  function format.finish(totals, ms)
    write '<?xml version="1.0" encoding="UTF-8"?>\n'
    write(string.format('<testsuites name="orrery test, seed %d" tests="%d" failures="%d" skipped="%d" time="%s">\n',
      options.seed, totals.passed + totals.failed + totals.pending + totals.skipped, totals.failed,
      totals.pending + totals.skipped, seconds(ms)))
    for _, text in ipairs(suites) do
      write(text)
    end
    write "</testsuites>\n"
  end

  return format
end
