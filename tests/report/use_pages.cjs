// Sorts a table of estimates by its columns, and searches, filters and sorts cards, as a reader does.
// Usage: node use_pages.cjs FILE CHROMIUM
const { chromium } = require("playwright-core");

(async () => {
  const [file, executablePath] = process.argv.slice(2);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage();
    const errors = [];
    page.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(`file://${file}`);
    const heads = page.locator(".biasoverview th");
    const column = async (name) => {
      const at = (await heads.allTextContents()).findIndex((text) => text.trim() === name);
      await heads.nth(at).click();
      const told = await heads.nth(at).getAttribute("aria-sort");
      const cells = await page.locator(`.biasoverview tbody td:nth-child(${at + 1})`).allTextContents();
      return { told, cells: cells.map((text) => text.trim()) };
    };
    const up = await column("estimate"), down = await column("estimate"), q = await column("q");
    const cards = async () => ({
      at: await page.evaluate(() => [...document.querySelectorAll(".card")].filter((c) => !c.hidden).map((c) => Number(c.dataset.at))),
      told: await page.locator("output").textContent(),
    });
    const all = await cards();
    await page.selectOption("[name=order]", "effect");
    const effect = await cards();
    await page.selectOption("[name=order]", "context");
    const context = await cards();
    await page.selectOption("[name=attribute]", "fluency");
    const filtered = await cards();
    await page.fill("[name=words]", "no such words");
    const none = await cards();
    console.log(JSON.stringify({ errors, up, down, q, all, effect, context, filtered, none }));
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(String(error)); process.exit(1); });
