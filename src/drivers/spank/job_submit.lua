-- SPDX-License-Identifier: Apache-2.0
-- Slurm, JobSubmitPlugins=lua: a job that asks for --gres=vgpu:N asks for N licences of the pool, too, which is what
-- weir-engine-driver makes scarce or plentiful. Without this, jobs say both: --gres=vgpu:N -L vgpu:N. A site with a
-- job_submit.lua of its own calls add_licences from there.

local POOL = "vgpu"

local function shares_in(request)
  for item in string.gmatch(request or "", "[^,]+") do
    local count = string.match(item, "^gres[:/]" .. POOL .. "[:=](%d+)$") or string.match(item, "^" .. POOL .. ":(%d+)$")
    if count then return tonumber(count) end
    if item == "gres:" .. POOL or item == "gres/" .. POOL or item == POOL then return 1 end
  end
  return 0
end

function add_licences(job)
  local asked = "," .. (job.licenses or "") .. ","
  if string.find(asked, "," .. POOL .. "[:,]") then return end
  local shares = shares_in(job.tres_per_node)
  if shares == 0 then shares = shares_in(job.tres_per_job) end
  if shares == 0 then return end
  local own = POOL .. ":" .. tostring(shares)
  job.licenses = (job.licenses and job.licenses ~= "") and (job.licenses .. "," .. own) or own
end

function slurm_job_submit(job, partitions, uid)
  add_licences(job)
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
