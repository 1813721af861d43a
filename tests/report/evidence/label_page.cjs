// Labels the first item with a key, goes on to label the second with a button, and downloads the labels.
// Usage: node label_page.cjs FILE CHROMIUM
const { chromium } = require("playwright-core");
const { readFileSync } = require("fs");

(async () => {
  const [file, executablePath] = process.argv.slice(2);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage({ acceptDownloads: true });
    const errors = [];
    page.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(`file://${file}`);
    await page.keyboard.press("1");
    await page.locator("[data-at='2']").click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#csv").click()]);
    const told = await page.locator("#told").textContent();
    console.log(JSON.stringify({ errors, told, csv: readFileSync(await download.path(), "utf8") }));
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(String(error)); process.exit(1); });
