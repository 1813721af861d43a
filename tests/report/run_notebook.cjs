// Opens a notebook in JupyterLab, runs all its cells, waits until they are done, saves it and takes a screenshot.
// Usage: node run_notebook.cjs URL CHROMIUM SCREENSHOT
const { chromium } = require("playwright-core");

(async () => {
  const [url, executablePath, screenshot] = process.argv.slice(2);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage({ viewport: { width: 1300, height: 6000 } });
    page.setDefaultTimeout(60000);
    await page.goto(url);
    await page.waitForSelector(".jp-Notebook .jp-CodeCell");
    await page.waitForSelector("text=/Python 3.*Idle/");
    await page.click("text=/^Run$/");
    await page.click("text=/^Run All Cells$/");
    // every code cell has a number in its prompt once it has run; one that waits or runs has a star
    await page.waitForFunction(
      () => window.jupyterapp.shell.currentWidget.content.widgets
        .filter((cell) => cell.model.type === "code")
        .every((cell) => cell.model.executionState === "idle" && cell.model.executionCount > 0),
      null,
      { timeout: 120000 },
    );
    await page.keyboard.press("Control+s");
    await page.waitForTimeout(2000);
    await page.screenshot({ path: screenshot });
    const shown = await page.evaluate(() => ({
      cards: document.querySelectorAll(".jp-OutputArea-output .biascard").length,
      images: document.querySelectorAll(".jp-OutputArea-output img").length,
      errors: [...document.querySelectorAll("[data-mime-type='application/vnd.jupyter.error']")].map((e) => e.innerText),
      warnings: [...document.querySelectorAll("[data-mime-type='application/vnd.jupyter.stderr']")].map((e) => e.innerText),
    }));
    console.log(JSON.stringify(shown));
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(String(error)); process.exit(1); });
