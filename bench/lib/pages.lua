-- For wrk: asks for distinct pages, evenly and at random: wrk ... -s pages.lua URL -- KIND PAGES [ACCEPT-ENCODING]
local requests = {}
local pages

function init(args)
  pages = tonumber(args[2])
  wrk.headers["Accept-Encoding"] = args[3]
  wrk.headers["Host"] = "bench.test"
  for n = 1, pages do
    requests[n] = wrk.format("GET", "/" .. args[1] .. "-" .. n .. "/")
  end
end

function request()
  return requests[math.random(pages)]
end
