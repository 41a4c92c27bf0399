// How far a job is: asked for once a second while it goes on.
const line = document.getElementById("job");
const OVER = ["stopped", "finished", "failed"];

function span(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s` : `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

function show(job) {
  document.getElementById("job-state").textContent = job.state;
  const parts = [span(job.elapsed_s)];
  if (job.unit) parts.unshift(`${job.done.toLocaleString("en")}${job.total === null ? "" : ` of ${job.total.toLocaleString("en")}`} ${job.unit}`);
  if (job.rate_per_s !== null) parts.push(`${Math.round(job.rate_per_s).toLocaleString("en")} a second`);
  if (job.eta_s !== null) parts.push(`${span(job.eta_s)} left`);
  document.getElementById("job-progress").textContent = parts.join(" · ");
}

async function look() {
  let job;
  try {
    const answer = await fetch(`/api/job?id=${encodeURIComponent(line.dataset.job)}`);
    job = answer.ok ? await answer.json() : null;
  } catch { job = null; }
  if (job === null) { document.getElementById("job-progress").textContent = "not connected, trying again…"; setTimeout(look, 2000); return; }
  show(job);
  if (!OVER.includes(job.state)) setTimeout(look, 500);
  else if (!OVER.includes(line.dataset.state)) location.reload(); // what came out of it
}
look();
