-- For wrk: a mixture of requests, and a look at every answer: wrk ... -s strict.lua URL -- POST_BYTES [PATH]
-- With a path it is the only one, and every answer has to be like a thread's first.
-- Prints as JSON how many answers there were, how many were wrong, an example, and what wrk itself saw go wrong.
local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  answers, wrong, example, number = 0, 0, "", 0
  local length = tonumber(args[1] or "0")
  if args[2] then
    mixture = { wrk.format("GET", args[2]) }
    return
  end
  expected = "Hello World"
  local get = wrk.format("GET", "/hello.php")
  mixture = { get, get, get, get, get, get, get, get, get, wrk.format("GET", "/file.txt") }
  if length > 0 then
    table.insert(mixture, wrk.format("POST", "/hello.php", nil, string.rep("x", length)))
    table.insert(mixture, wrk.format("GET", "/session.php"))
  end
end

function request()
  number = number + 1
  return mixture[number % #mixture + 1]
end

function response(status, _, body)
  answers = answers + 1
  expected = expected or body
  if status ~= 200 or body ~= expected then
    wrong = wrong + 1
    example = status .. " " .. string.gsub(string.sub(body, 1, 80), "[^%w .]", "?")
  end
end

function done(summary, latency, _)
  local all, bad, one = 0, 0, ""
  for _, thread in ipairs(threads) do
    all, bad = all + thread:get("answers"), bad + thread:get("wrong")
    if thread:get("example") ~= "" then one = thread:get("example") end
  end
  local e = summary.errors
  io.write(string.format('\n{"answers": %d, "wrong": %d, "example": "%s", "broken": %d, "slowest": %d}\n', all, bad, one,
    e.connect + e.read + e.write + e.timeout, latency.max))
end
